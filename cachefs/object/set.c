/* Sets of several sources: the set file, and what a SET argument may be. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "dir.h"
#include "json.h"
#include "mem.h"
#include "object-internal.h"

#define SOURCES_MAX 4096

void set_release(struct set *s)
{
    for (size_t i = 0; i < s->n; i++) {
        free(s->sources[i].uri);
        free(s->sources[i].at);
    }
    free(s->sources);
    *s = (struct set){0};
}

/* "train", "/train/" and "train/" are "train/"; "" is the root. NULL: it leaves the set. */
static char *clean_place(const char *at)
{
    char *place = prefix_from_path(at);
    for (const char *p = place; *p;) {
        size_t len = strcspn(p, "/");
        if (len == 0 || len > NAME_MAX || part_is_dots(p, len)) {
            free(place);
            return NULL;
        }
        p += len + 1;
    }
    return place;
}

static int take_source(struct set *set, const char *what, const struct json *source,
                       struct err *err)
{
    static const char *const keys[] = {"uri", "at", NULL};
    const char *uri, *at;
    if (json_want_object(source, err) || json_only_keys(source, keys, err) ||
        json_str(source, "uri", &uri, err) || json_str_or(source, "at", "", &at, err))
        return -1;
    cleanup_uri struct uri parsed = {0};
    if (uri_parse(&parsed, uri, err))
        return err_wrap(err, "%s: sources[%zu]", what, set->n);
    char *place = clean_place(at);
    if (!place)
        return err_set(
            err, ERR_USAGE,
            "not a place in the set: %s: sources[%zu].at: '%.200s' (want folders' names like "
            "\"train/\", or \"\")",
            what, set->n, at);
    set->sources[set->n++] = (struct set_source){xstrdup(uri), place};
    return 0;
}

int set_parse(struct set *ret, const char *what, const void *text, size_t len, struct err *err)
{
    static const char *const keys[] = {"sources", NULL};
    cleanup_json struct json_doc *doc = NULL;
    if (json_parse(&doc, what, text, len, err))
        return -1;
    struct json root = json_root(doc);
    struct json list = json_get(&root, "sources");
    if (json_want_object(&root, err) || json_only_keys(&root, keys, err) ||
        json_want_array(&list, err))
        return -1;
    size_t n = json_count(&list);
    if (n == 0 || n > SOURCES_MAX)
        return err_set(err, ERR_USAGE, "bad set: %s: %zu sources (want 1 to %d)", what, n,
                       SOURCES_MAX);
    struct set set = {.sources = xcalloc(n, sizeof set.sources[0])};
    for (size_t i = 0; i < n; i++) {
        struct json source = json_at(&list, i);
        if (take_source(&set, what, &source, err)) {
            set_release(&set);
            return -1;
        }
    }
    *ret = set;
    return 0;
}

static void one_source(struct set *ret, char *uri)
{
    ret->sources = xcalloc(1, sizeof ret->sources[0]);
    ret->sources[0] = (struct set_source){uri, xstrdup("")};
    ret->n = 1;
}

int set_from_arg(struct set *ret, const char *arg, struct err *err)
{
    if (strstr(arg, "://")) {
        cleanup_uri struct uri u = {0};
        if (uri_parse(&u, arg, err))
            return -1;
        one_source(ret, xstrdup(arg));
        return 0;
    }
    struct stat st;
    if (!*arg)
        return err_set(err, ERR_USAGE, "not a set: its name is empty (an unset variable?)");
    if (stat(arg, &st))
        return err_sys(
            err, errno,
            "not a set: %s (want an address like s3://BUCKET/PREFIX, a folder or a set file)", arg);
    if (S_ISDIR(st.st_mode)) { /* a folder is itself a set */
        cleanup_free char *real = realpath(arg, NULL);
        if (!real)
            return err_sys(err, errno, "not a set: %s", arg);
        one_source(ret, xasprintf("file://%s", real));
        return 0;
    }
    cleanup_bytes struct bytes text = {0};
    int unread = read_small_file(arg, &text, NULL, err);
    if (text.data && strncmp(text.data, "SQLite format 3", 15) == 0)
        return err_set(err, ERR_USAGE,
                       "not a set file: %s: it is a catalog, one version of a set (want the set "
                       "itself: its address or its set file)",
                       arg);
    if (unread)
        return err_wrap(err, "set file");
    if (!text.data || text.data[strspn(text.data, " \t\r\n")] != '{')
        return err_set(
            err, ERR_USAGE,
            "not a set: %s: neither a set file ({\"sources\": ...}) nor a catalog (want an "
            "address like s3://BUCKET/PREFIX, or what scan -o wrote)",
            arg);
    return set_parse(ret, arg, text.data, text.len, err);
}

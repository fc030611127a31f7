/*
 * The Paddle Operator's options as ours.
 *
 * Its paths are those of its own pods (/mnt/SET/PATH); ours are relative to the set. It puts keys
 * into addresses ("s3://KEY:SECRET@bucket/…"): they become the job's credentials here, and a mask
 * in what is kept. Where its words and ours differ, what it means is done: a destination below its
 * mount is what that shows of the store; "random" without a known sampler is a deal by name.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "control.h"
#include "file.h"
#include "http.h"
#include "mem.h"
#include "object.h"
#include "server-internal.h"

/* --- secrets in what was posted --------------------------------------------------------------- */

/* "scheme://KEY:SECRET@host" loses what is before the '@'. A secret may have slashes: rather too
 * much is hidden than too little. */
static void add_masked(struct bytes *out, const char *text)
{
    for (const char *url; (url = strstr(text, "://")); text = url) {
        url += 3;
        bytes_add(out, text, (size_t)(url - text));
        size_t len = strcspn(url, " \t\r\n\"'");
        const char *at = memrchr(url, '@', len);
        if (at && memchr(url, ':', (size_t)(at - url))) {
            bytes_add_str(out, "***:***");
            url = at;
        }
    }
    bytes_add_str(out, text);
}

static void mask_node(const struct json *node, struct json_writer *w, const char *key)
{
    const char *text;
    if (json_as_str(node, &text, NULL) == 0) {
        cleanup_bytes struct bytes masked = {0};
        add_masked(&masked, text);
        jw_str(w, key, masked.data ? masked.data : "");
        return;
    }
    bool array = json_want_array(node, NULL) == 0, object = json_want_object(node, NULL) == 0;
    if (!array && !object) {
        cleanup_bytes struct bytes plain = {0};
        json_text(node, &plain);
        jw_raw(w, key, plain.data);
        return;
    }
    if (array)
        jw_array(w, key);
    else
        jw_object(w, key);
    struct json child = array ? json_at(node, 0) : json_member(node, 0);
    for (size_t i = 0; child.node; child = array ? json_at(node, ++i) : json_after(node, &child))
        mask_node(&child, w, array ? NULL : child.key);
    jw_end(w);
}

/* The '@' before the host, which has none itself: a secret may have some, and slashes. */
static const char *find_host(const char *colon)
{
    const char *at = strchr(colon, '@');
    for (const char *next = at; next; next = memchr(at + 1, '@', strcspn(at + 1, "/")))
        at = next;
    return at;
}

/* What is behind the ':' is a host's port, and an '@' after it one of the path's: a number before a
 * '/', and before it what can have a port. A bucket's name alone (no dot) cannot, so what stands
 * there is a key, and its secret may begin with a '/', or with digits and a '/'. */
static bool is_port(const char *uri, const char *host, const char *colon)
{
    if (memchr(host, '[', (size_t)(colon - host)))
        return true; /* an IPv6 address */
    size_t digits = strspn(colon + 1, "0123456789");
    bool bucket = strncmp(uri, "s3://", 5) == 0 || strncmp(uri, "bos://", 6) == 0;
    return digits && colon[1 + digits] == '/' &&
           (!bucket || memchr(host, '.', (size_t)(colon - host)));
}

/* Takes the keys out of an address. True: there were some. */
static bool take_keys(const char *uri, struct bytes *ret_uri, struct bytes *access,
                      struct bytes *secret)
{
    const char *scheme = strstr(uri, "://"), *host = scheme ? scheme + 3 : uri;
    const char *colon = memchr(host, ':', strcspn(host, "/"));
    const char *at = colon ? find_host(colon) : NULL;
    if (!scheme || !at || is_port(uri, host, colon)) {
        bytes_add_str(ret_uri, uri);
        return false;
    }
    char *plain = xmalloc(strlen(colon));
    bytes_add(access, host, (size_t)(colon - host));
    bytes_add(secret, plain, url_decode(plain, colon + 1, (size_t)(at - colon - 1)));
    free(plain);
    bytes_addf(ret_uri, "%.*s%s", (int)(host - uri), uri, at + 1);
    return true;
}

static void write_keys(struct json_writer *w, const char *name, const struct bytes *access,
                       const struct bytes *secret)
{
    jw_object(w, name);
    jw_strn(w, "accessKeyId", access->data, access->len);
    jw_strn(w, "secretAccessKey", secret->data, secret->len);
    jw_end(w);
}

/* --- paths ------------------------------------------------------------------------------------ */

/* "/mnt/SET/a/b" -> "a/b"; anything else is not in the set. */
static const char *path_in_set(const char *path)
{
    if (strncmp(path, "/mnt/", 5) != 0)
        return NULL;
    path += 5;
    path += strcspn(path, "/");
    return *path ? path + 1 : path;
}

/* Paths below the set's root. Any other (a cache folder), or the root itself, means all: of what is
 * to be removed for good (`strict`) that is a mistake. */
static int copy_paths(const struct json *body, bool strict, struct json_writer *w, struct err *err)
{
    if (!json_has(body, "paths"))
        return 0;
    struct json paths = json_get(body, "paths");
    size_t n = json_count(&paths);
    if (json_want_array(&paths, err))
        return -1;
    for (size_t i = 0; i < n; i++) {
        struct json item = json_at(&paths, i);
        const char *path;
        if (json_as_str(&item, &path, err))
            return -1;
        const char *inner = path_in_set(path);
        if (inner && *inner)
            continue;
        return strict ? err_set(err, ERR_USAGE,
                                "paths[%zu]: \"%.100s\": want a path below the set "
                                "(/mnt/SET/PATH)",
                                i, path)
                      : 0;
    }
    if (!n)
        return 0;
    jw_array(w, "paths");
    for (size_t i = 0; i < n; i++) {
        struct json item = json_at(&paths, i);
        const char *path = "";
        json_as_str(&item, &path, NULL);
        jw_str(w, NULL, path_in_set(path));
    }
    jw_end(w);
    return 0;
}

/* --- warmup ----------------------------------------------------------------------------------- */

/* Any sample may be named, however large it is. No link is followed: who can write into the set
 * would name any file of this machine with it. */
static int read_list_file(const char *mount, const char *path, struct bytes *ret, struct err *err)
{
    cleanup_close int folder = open(mount, O_PATH | O_DIRECTORY | O_CLOEXEC);
    cleanup_close int fd =
        folder < 0 ? -1 : file_open_no_links(folder, path, O_RDONLY | O_NONBLOCK);
    cleanup_file FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    char part[64 << 10];
    size_t n;
    if (!f && errno == ELOOP)
        return err_set(err, ERR_DENIED, "%s/%s: a symbolic link: it is not followed", mount, path);
    if (!f)
        return err_sys(err, errno, "%s/%s", mount, path);
    take_fd(&fd);
    while ((n = fread(part, 1, sizeof part, f)) > 0) {
        bytes_add(ret, part, n);
        if (ret->len > LIST_MAX)
            return err_set(err, ERR_USAGE, "%s/%s: longer than 64 MiB", mount, path);
    }
    return ferror(f) ? err_sys(err, errno, "%s/%s", mount, path) : 0;
}

static int read_lines(const char *mount, const char *path, struct bytes *ret, struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    if (read_list_file(mount, path, &text, err))
        return -1;
    for (const char *p = text.data, *end = p + text.len, *next; p < end; p = next) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        next = newline ? newline + 1 : end;
        cleanup_free char *line = xstrndup(p, (size_t)(next - p));
        const char *inner = path_in_set(line);
        const char *from = inner ? p + (inner - line) : p;
        bytes_add(ret, from, (size_t)(next - from));
    }
    return 0;
}

/* A list of paths that lies in the set itself. */
static int copy_file(const struct server *s, const struct json *body, struct json_writer *w,
                     struct err *err)
{
    const char *file, *mount;
    char digest[65];
    uint64_t paths, duplicates;
    cleanup_bytes struct bytes text = {0};
    if (json_str_or(body, "file", "", &file, err))
        return -1;
    if (!*file)
        return 0;
    const char *inner = path_in_set(file);
    if (!inner || !*inner || options_check_path(inner, NULL))
        return err_set(err, ERR_USAGE, "file: \"%.200s\": want a file of the set (/mnt/SET/PATH)",
                       file);
    if (mount_choose(s, "", &mount, err))
        return -1;
    if (read_lines(mount, inner, &text, err) ||
        lists_keep(s, text.data ? text.data : "", text.len, digest, &paths, &duplicates, err))
        return err_wrap(err, "file");
    jw_str(w, "list", digest);
    return 0;
}

static int warmup_options(const struct server *s, const struct json *body, struct json_writer *w,
                          struct err *err)
{
    struct json nested = json_get(body, "Strategy");
    const char *strategy;
    char share[32];
    bool within = json_has(body, "Strategy") && json_want_object(&nested, NULL) == 0;
    if (json_str_or(within ? &nested : body, "strategyName", "", &strategy, err))
        return -1;
    const char *file = "";
    json_str_or(body, "file", "", &file, NULL);
    if (*file ? copy_file(s, body, w, err) : copy_paths(body, false, w, err))
        return -1;
    if (s->conf.partitions <= 1)
        return 0;
    snprintf(share, sizeof share, "%u/%u", s->conf.ordinal, s->conf.partitions);
    jw_str(w, "partition", share);
    if (strcmp(strategy, "sequence") == 0)
        jw_str(w, "strategy", strategy);
    return 0;
}

/* --- sync ------------------------------------------------------------------------------------- */

/* A folder below its mount is what our mount shows of the store. */
static int store_uri_of(const struct server *s, const char *path, struct bytes *ret,
                        struct err *err)
{
    const char *inner = path_in_set(path), *mount;
    struct control_mount m;
    if (!inner || options_check_path(inner, NULL))
        return err_set(err, ERR_DENIED,
                       "\"file://%.200s\": a local folder must lie below the set (/mnt/SET/PATH)",
                       path);
    if (mount_choose(s, "", &mount, err) || control_find(mount, &m, err))
        return -1;
    size_t len = strlen(m.uri);
    int rc = 0;
    if (strstr(m.uri, "://"))
        bytes_addf(ret, "%s%s%s", m.uri, len && m.uri[len - 1] == '/' ? "" : "/", inner);
    else
        rc = err_set(err, ERR_USAGE, "%s has several sources: name the store itself", mount);
    control_mount_release(&m);
    return rc;
}

/* One end of it, with its keys. */
static int copy_end(const struct server *s, const struct json *body, const char *key,
                    const char *keys_name, struct bytes *ret_uri, struct json_writer *w,
                    struct err *err)
{
    const char *uri;
    cleanup_bytes struct bytes access = {0};
    cleanup_wiped struct bytes secret = {0};
    if (json_str(body, key, &uri, err))
        return -1;
    const char *folder = store_uri_folder(uri);
    if (folder)
        return store_uri_of(s, folder, ret_uri, err) ? err_wrap(err, "%s", key) : 0;
    if (take_keys(uri, ret_uri, &access, &secret))
        write_keys(w, keys_name, &access, &secret);
    return 0;
}

/* A pattern, or several. */
static int add_rules(const struct json *body, const char *key, struct json_writer *w,
                     struct err *err)
{
    struct json value = json_get(body, key);
    const char *pattern;
    if (!json_has(body, key))
        return 0;
    bool one = json_as_str(&value, &pattern, NULL) == 0;
    if (!one && json_want_array(&value, err))
        return -1;
    for (size_t i = 0; i < (one ? 1 : json_count(&value)); i++) {
        struct json item = json_at(&value, i);
        if (!one && json_as_str(&item, &pattern, err))
            return -1;
        if (!*pattern)
            continue;
        jw_object(w, NULL);
        jw_str(w, key, pattern);
        jw_end(w);
    }
    return 0;
}

/* Its flags, in either spelling. */
static int copy_flags(const struct json *body, struct json_writer *w, struct err *err)
{
    static const char *const flags[][2] = {
        {"update", "update"},
        {"forceUpdate", "force-update"},
        {"perms", "perms"},
        {"dirs", "dirs"},
        {"dry", "dry"},
        {"deleteSrc", "delete-src"},
        {"deleteDst", "delete-dst"},
        {"links", "links"},
        {"checkAll", "check-all"},
        {"checkNew", "check-new"},
    };
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        bool on = false, dashed = false;
        if (json_bool_or(body, flags[i][0], false, &on, err) ||
            json_bool_or(body, flags[i][1], false, &dashed, err))
            return -1;
        if (on || dashed)
            jw_bool(w, flags[i][0], true);
    }
    return 0;
}

static int copy_limits(const struct json *body, struct json_writer *w, struct err *err)
{
    int64_t threads, mbit, other;
    const char *start, *end;
    if (json_int_or(body, "threads", 0, 10000, 0, &threads, err) ||
        json_int_or(body, "bwlimit", 0, INT32_MAX, 0, &mbit, err) ||
        json_int_or(body, "bwLimit", 0, INT32_MAX, 0, &other, err) ||
        json_str_or(body, "start", "", &start, err) || json_str_or(body, "end", "", &end, err))
        return -1;
    if (threads)
        jw_int(w, "threads", threads > 256 ? 256 : threads);
    if (mbit || other)
        jw_int(w, "bandwidth", (mbit ? mbit : other) * 1000000 / 8);
    jw_str(w, "start", start);
    jw_str(w, "end", end);
    return 0;
}

static int sync_options(const struct server *s, const struct json *body, struct json_writer *w,
                        struct err *err)
{
    cleanup_bytes struct bytes source = {0}, destination = {0};
    if (copy_end(s, body, "source", "credentials", &source, w, err) ||
        copy_end(s, body, "destination", "destinationCredentials", &destination, w, err) ||
        copy_flags(body, w, err) || copy_limits(body, w, err))
        return -1;
    jw_array(w, "sources");
    jw_str(w, NULL, source.data);
    jw_end(w);
    jw_str(w, "destination", destination.data);
    jw_array(w, "rules");
    int rc = add_rules(body, "include", w, err) || add_rules(body, "exclude", w, err);
    jw_end(w);
    return rc ? -1 : 0;
}

int compat_options(struct server *s, const char *type, const struct json *body,
                   struct json_writer *w, struct err *err)
{
    int rc = strcmp(type, "warmup") == 0 ? warmup_options(s, body, w, err)
             : strcmp(type, "sync") == 0 ? sync_options(s, body, w, err)
                                         : copy_paths(body, strcmp(type, "rmr") == 0, w, err);
    jw_str(w, "scope", "node");
    mask_node(body, w, "compat");
    return rc;
}

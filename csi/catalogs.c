/* Catalogs made and put away by running `sampan`, and where a mount finds them. */
#include "catalogs.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "early.h"
#include "file.h"
#include "json.h"
#include "mem.h"
#include "state.h"

size_t store_words(const struct attributes *a, const char *credentials,
                   const char *ret[STORE_WORDS_MAX])
{
    size_t n = 0;
    if (a->value[ATTR_ENDPOINT]) {
        ret[n++] = "--endpoint";
        ret[n++] = a->value[ATTR_ENDPOINT];
    }
    if (a->value[ATTR_REGION]) {
        ret[n++] = "--region";
        ret[n++] = a->value[ATTR_REGION];
    }
    if (credentials) {
        ret[n++] = "--credentials";
        ret[n++] = credentials;
    }
    return n;
}

char *catalog_path_here(const char *state, const char *version)
{
    return xasprintf("%s/catalogs/%s", state, version);
}

/* A node's copy. */
static char *catalog_path_on_node(const char *state, const char *version)
{
    return xasprintf("%s/versions/%s", state, version);
}

static int sync_one(struct mounter *m, const struct attributes *a, const char *credentials,
                    const char *name, const char *from, const char *to, uint64_t deadline_ns,
                    struct err *err)
{
    const char *argv[STORE_WORDS_MAX + 12] = {"sampan", "sync",      "--quiet", "--include",
                                              name,     "--exclude", "*"};
    size_t n = 7;
    n += store_words(a, credentials, argv + n);
    argv[n++] = "--";
    argv[n++] = from;
    argv[n++] = to;
    return m->ops->run(m, argv, deadline_ns, NULL, err);
}

static char *folder_uri(const char *path)
{
    return xasprintf("file://%s/", path);
}

static int parse_made(const struct bytes *text, struct catalog_made *ret, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    const char *version;
    if (json_parse(&doc, "scan", text->data ? text->data : "", text->len, err))
        return -1;
    struct json root = json_root(doc);
    if (json_str(&root, "version", &version, err) ||
        json_int(&root, "bytes", 0, INT64_MAX, &ret->bytes, err) ||
        json_int(&root, "samples", 0, INT64_MAX, &ret->samples, err))
        return -1;
    if (strlen(version) >= sizeof ret->version ||
        strspn(version, "0123456789abcdef") != strlen(version))
        return err_set(err, ERR_CORRUPT, "scan: \"%s\" is no version", version);
    snprintf(ret->version, sizeof ret->version, "%s", version);
    return 0;
}

static char *catalogs_folder(const char *state)
{
    return xasprintf("%s/catalogs", state);
}

#define ASIDE ".new-"

int catalog_scan(struct mounter *m, const char *state, const struct attributes *a,
                 const char *credentials, uint64_t deadline_ns, struct catalog_made *ret,
                 struct err *err)
{
    cleanup_free char *folder = catalogs_folder(state);
    cleanup_bytes struct bytes out = {0};
    const char *uri = a->value[ATTR_URI];
    const char *argv[STORE_WORDS_MAX + 8] = {"sampan", "scan", "--json", "--quiet", "-o"};
    if (folder_make(folder, err))
        return -1;
    /* By the thread: two snapshots of one set may be under way. */
    ret->file = xasprintf("%s/" ASIDE "%d", folder, gettid());
    cleanup_free char *several = xasprintf("%s.set", ret->file);
    size_t n = 5;
    argv[n++] = ret->file;
    n += store_words(a, credentials, argv + n);
    argv[n++] = "--";
    argv[n++] = uri_is_several(uri) ? several : uri;
    unlink(ret->file);
    if (uri_is_several(uri) && file_write_whole(several, uri, strlen(uri), 0600, err))
        return -1;
    int result = m->ops->run(m, argv, deadline_ns, &out, err);
    unlink(several);
    return result || parse_made(&out, ret, err) ? -1 : 0;
}

int catalog_keep(struct mounter *m, const char *state, const struct attributes *a,
                 const char *credentials, uint64_t deadline_ns, struct catalog_made *made,
                 struct err *err)
{
    cleanup_free char *path = catalog_path_here(state, made->version);
    cleanup_free char *folder = catalogs_folder(state), *from = folder_uri(folder);
    const char *to = a->value[ATTR_CATALOGS];
    /* On the disk before the snapshot is told of as done. */
    if (rename(made->file, path) || file_sync_name(path))
        return err_sys(err, errno, "keep the catalog %s", path);
    return to ? sync_one(m, a, credentials, made->version, from, to, deadline_ns, err) : 0;
}

void catalog_made_release(struct catalog_made *made)
{
    if (made->file)
        unlink(made->file);
    free(take_ptr(&made->file));
}

void catalogs_clean(const char *state)
{
    cleanup_free char *folder = catalogs_folder(state);
    cleanup_dir DIR *d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d));)
        if (strncmp(e->d_name, ASIDE, sizeof ASIDE - 1) == 0)
            unlinkat(dirfd(d), e->d_name, 0);
}

static bool is_good(const char *path)
{
    return access(path, R_OK) == 0 && !early_is_lost(path);
}

char *catalog_word(const char *state, const struct attributes *a)
{
    const char *version = a->value[ATTR_VERSION], *catalogs = a->value[ATTR_CATALOGS];
    cleanup_free char *path = catalog_path_on_node(state, version);
    cleanup_free char *controllers = catalog_path_here(state, version);
    if (!catalogs || is_good(path) || access(controllers, R_OK) == 0)
        return take_ptr(&path);
    return xasprintf("%s%s%s", catalogs, catalogs[strlen(catalogs) - 1] == '/' ? "" : "/", version);
}

bool catalog_word_is_file(const char *word)
{
    return *word == '/';
}

int catalog_need(const char *state, const char *version, struct err *err)
{
    cleanup_free char *path = catalog_path_on_node(state, version);
    cleanup_free char *controllers = catalog_path_here(state, version);
    cleanup_free char *folder = xasprintf("%s/versions", state);
    if (is_good(path))
        return 0;
    if (folder_make(folder, err))
        return -1;
    early_remove(path);
    if (link(controllers, path) == 0)
        return 0; /* both services work in this folder */
    return err_set(
        err, ERR_NOT_FOUND,
        "version %.12s…: its catalog is not on this node (give the StorageClass or the snapshot "
        "class `catalogs`: a folder in a store that nodes reach)",
        version);
}

/* Files and folders of a set: where its mount point lies, and what `sampan mount` is handed. */
#define LOG_MODULE "node"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "control.h"
#include "mem.h"
#include "node-internal.h"

/* --- names ------------------------------------------------------------------------------------ */

char *set_mountpoint(const struct node *n, const char *key)
{
    return xasprintf("%s/%s", n->mounts, key);
}

char *set_path(const struct node *n, const char *key, enum set_file which)
{
    switch (which) {
    case SET_KEYS:
        return xasprintf("%s/%s", n->conf.run, key);
    case SET_TOKEN:
        return xasprintf("%s/%s.peers", n->conf.run, key);
    case SET_LOG:
        return xasprintf("%s/%s.log", n->mounts, key);
    case SET_SEVERAL:
        return xasprintf("%s/%s.set", n->mounts, key);
    case SET_DIRECT:
    default:
        return xasprintf("%s/direct/%s", n->conf.state, key);
    }
}

/* --- secrets ---------------------------------------------------------------------------------- */

enum held_secret { SECRET_SAME, SECRET_OTHER, SECRET_GONE };

static enum held_secret compare(const char *path, const struct bytes *wanted)
{
    cleanup_secrets struct secrets have = {0};
    bytes_reserve(&have.keys, wanted->len + 2);
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? SECRET_GONE : SECRET_OTHER;
    ssize_t got = read(fd, have.keys.data, wanted->len + 1);
    bool same = got == (ssize_t)wanted->len &&
                (!got || memcmp(have.keys.data, wanted->data, (size_t)got) == 0);
    return same ? SECRET_SAME : SECRET_OTHER;
}

bool set_has_keys(const struct node *n, const struct set *s, const struct bytes *wanted,
                  const char *own)
{
    if (!s->keyed || !wanted->len)
        return s->keyed == (wanted->len > 0);
    cleanup_free char *path = set_path(n, s->key, SET_KEYS);
    enum held_secret held = compare(path, wanted);
    return held == SECRET_GONE ? strcmp(s->key, own) == 0 : held == SECRET_SAME;
}

static int hand_over(struct node *n, const char *path, const struct bytes *text, struct err *err)
{
    if (!text->len || compare(path, text) == SECRET_SAME)
        return 0;
    log_info(n->conf.log, "%s: new", path);
    if (file_write_whole(path, text->data, text->len, 0400, err))
        return err_wrap(err, "hand the credentials over");
    return 0;
}

int set_write_secrets(struct node *n, const struct set *s, const struct secrets *secrets,
                      struct err *err)
{
    cleanup_free char *keys = set_path(n, s->key, SET_KEYS);
    cleanup_free char *token = set_path(n, s->key, SET_TOKEN);
    if (s->keyed && hand_over(n, keys, &secrets->keys, err))
        return -1;
    return s->tokened ? hand_over(n, token, &secrets->token, err) : 0;
}

/* --- made and removed ------------------------------------------------------------------------- */

/* The folder is there, and in memory alone (it is root's as well: only root gets here). */
static int make_mountpoint(const struct set *s, struct err *err)
{
    if (mkdir(s->mountpoint, 0755) == 0 || errno == EEXIST)
        return 0;
    return errno == ENOTCONN ? 0 : err_sys(err, errno, "make the folder %s", s->mountpoint);
}

/* Seen in pods, whose users are whoever they are. */
static int make_direct(struct node *n, const struct set *s, struct err *err)
{
    cleanup_free char *folder = set_path(n, s->key, SET_DIRECT);
    if (folder_make(folder, err))
        return -1;
    return chmod(folder, 0755) ? err_sys(err, errno, "open the folder %s", folder) : 0;
}

static int write_several(struct node *n, const struct set *s, struct err *err)
{
    cleanup_free char *path = set_path(n, s->key, SET_SEVERAL);
    return uri_is_several(s->uri) ? file_write_whole(path, s->uri, strlen(s->uri), 0600, err) : 0;
}

int set_make_files(struct node *n, const struct set *s, struct err *err)
{
    return make_mountpoint(s, err) || make_direct(n, s, err) || write_several(n, s, err) ? -1 : 0;
}

void set_remove_files(struct node *n, const struct set *s)
{
    static const enum set_file files[] = {SET_KEYS, SET_TOKEN, SET_LOG, SET_SEVERAL};
    cleanup_free char *direct = set_path(n, s->key, SET_DIRECT);
    cleanup_free char *socket = xasprintf("%s/" CONTROL_DIRECT_SOCKET, direct);
    rmdir(s->mountpoint);
    unlink(socket);
    rmdir(direct);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        cleanup_free char *path = set_path(n, s->key, files[i]);
        unlink(path);
    }
}

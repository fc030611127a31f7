/* Records as files. */
#define LOG_MODULE "state"
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "dir.h"
#include "file.h"
#include "hash.h"
#include "mem.h"

#define RECORD_MAX (1u << 20)
#define SEED_A     0x73616d70616e2d63ull
#define SEED_B     0x73692d7374617465ull

static void step(const struct state_dir *d, const char *what)
{
    if (d->step)
        d->step(d->step_arg, what);
}

int folder_make(const char *path, struct err *err)
{
    cleanup_free char *part = xstrdup(path);
    for (char *p = part + 1;; p++) {
        if (*p && *p != '/')
            continue;
        char end = *p;
        *p = '\0';
        if (mkdir(part, 0700) && errno != EEXIST && !(end && errno == EROFS))
            return err_sys(err, errno, "make the folder %s", part);
        *p = end;
        if (!end)
            return 0;
    }
}

int state_open(struct state_dir *d, const char *parent, const char *name, struct err *err)
{
    *d = (struct state_dir){.path = xasprintf("%s/%s", parent, name)};
    return folder_make(d->path, err);
}

void state_close(struct state_dir *d)
{
    free(d->path);
    free(d->strange);
    *d = (struct state_dir){0};
}

void state_name(const char *id, char ret[STATE_NAME_BYTES])
{
    size_t n = strlen(id);
    snprintf(ret, STATE_NAME_BYTES, "%016" PRIx64 "%016" PRIx64, hash64(id, n, SEED_A),
             hash64(id, n, SEED_B));
}

static char *record_path(const struct state_dir *d, const char *id)
{
    char name[STATE_NAME_BYTES];
    state_name(id, name);
    return xasprintf("%s/%s.json", d->path, name);
}

int file_read_whole(const char *path, size_t max, struct bytes *ret, struct err *err)
{
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "read %s", path);
    bytes_reserve(ret, ret->len + max + 1);
    ssize_t n = file_read(fd, ret->data + ret->len, max, 0);
    if (n < 0)
        return err_sys(err, errno, "read %s", path);
    ret->len += (size_t)n;
    ret->data[ret->len] = '\0';
    return 0;
}

int file_write_whole(const char *path, const void *data, size_t len, unsigned mode, struct err *err)
{
    /* Always the same name, so that what a killed process leaves is overwritten by the next. */
    cleanup_free char *aside = xasprintf("%s.new", path);
    unlink(aside);
    cleanup_close int fd = open(aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, (mode_t)mode);
    if (fd < 0)
        return err_sys(err, errno, "write %s", aside);
    if (file_write(fd, data, len, 0) || fsync(fd) || rename(aside, path) || file_sync_name(path)) {
        int e = errno;
        unlink(aside);
        return err_sys(err, e, "write %s", path);
    }
    return 0;
}

void state_begin(struct json_writer *w, struct bytes *out, const char *id)
{
    jw_init(w, out);
    jw_object(w, NULL);
    jw_int(w, "format", STATE_FORMAT);
    jw_str(w, "id", id);
}

int state_write(struct state_dir *d, const char *id, const struct bytes *json, struct err *err)
{
    cleanup_free char *path = record_path(d, id);
    if (state_known(d, id, err))
        return -1;
    if (json->len > RECORD_MAX)
        return err_set(err, ERR_LIMIT,
                       "%s: its record would have %zu bytes (at most %u: name fewer sources or "
                       "machines)",
                       id, json->len, RECORD_MAX);
    step(d, "write a record");
    return file_write_whole(path, json->data, json->len, 0600, err);
}

int state_remove(struct state_dir *d, const char *id, struct err *err)
{
    cleanup_free char *path = record_path(d, id);
    if (state_known(d, id, err))
        return -1;
    step(d, "remove a record");
    /* One that is back after a power cut would have what it speaks of mounted again, and nobody
     * would ever have that ended. */
    if ((unlink(path) && errno != ENOENT) || file_sync_name(path))
        return err_sys(err, errno, "remove %s", path);
    return 0;
}

/* --- reading all ------------------------------------------------------------------------------ */

int state_known(const struct state_dir *d, const char *id, struct err *err)
{
    char name[STATE_NAME_BYTES];
    cleanup_free char *path = record_path(d, id);
    state_name(id, name);
    for (size_t i = 0; i < d->n_strange; i++) {
        if (strcmp(d->strange[i], name) != 0 || access(path, F_OK))
            continue;
        err_set(err, ERR_FAILED,
                "%s: its record %s is damaged, or a newer version's: nothing is done to it (start "
                "that version, or move the file away)",
                id, path);
        if (err)
            err->sys = ENOTRECOVERABLE;
        return -1;
    }
    return 0;
}

bool state_has_strange(const struct state_dir *d)
{
    for (size_t i = 0; i < d->n_strange; i++) {
        cleanup_free char *path = xasprintf("%s/%s.json", d->path, d->strange[i]);
        if (access(path, F_OK) == 0)
            return true;
    }
    return false;
}

/* As `each` says. */
static int read_record(const struct state_dir *d, const char *name, state_each *each, void *arg,
                       struct err *err)
{
    cleanup_free char *path = xasprintf("%s/%s", d->path, name);
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    cleanup_bytes struct bytes text = {0};
    cleanup_json struct json_doc *doc = NULL;
    bytes_reserve(&text, RECORD_MAX + 1);
    ssize_t n = fd < 0 ? -1 : read(fd, text.data, RECORD_MAX + 1);
    if (n <= 0 || n > (ssize_t)RECORD_MAX || json_parse(&doc, name, text.data, (size_t)n, NULL))
        return 1;
    struct json root = json_root(doc);
    const char *id;
    int64_t format;
    char right[STATE_NAME_BYTES];
    if (json_str(&root, "id", &id, NULL) ||
        json_int_or(&root, "format", 1, STATE_FORMAT, 1, &format, NULL))
        return 1;
    state_name(id, right);
    return strncmp(name, right, sizeof right - 1) == 0 ? each(arg, &root, err) : 1;
}

static void add_strange(struct state_dir *d, const char *name, struct log *log)
{
    log_error(log, "the record %s/%s is damaged, or a newer version's: it is left alone", d->path,
              name);
    d->strange = xrealloc(d->strange, (d->n_strange + 1) * sizeof *d->strange);
    memcpy(d->strange[d->n_strange], name, STATE_NAME_BYTES - 1);
    d->strange[d->n_strange++][STATE_NAME_BYTES - 1] = '\0';
}

static bool is_records(const char *name)
{
    size_t digits = strspn(name, "0123456789abcdef");
    return digits == STATE_NAME_BYTES - 1 && strcmp(name + digits, ".json") == 0;
}

int state_walk(struct state_dir *d, state_each *each, void *arg, struct log *log, struct err *err)
{
    cleanup_dir DIR *dir = dir_open(AT_FDCWD, d->path, 0);
    const struct dirent *e;
    while (dir && (e = dir_next(dir))) {
        int got = is_records(e->d_name) ? read_record(d, e->d_name, each, arg, err) : 0;
        if (got < 0)
            return -1;
        if (got)
            add_strange(d, e->d_name, log);
    }
    return !dir || errno ? err_sys(err, errno, "read %s", d->path) : 0;
}

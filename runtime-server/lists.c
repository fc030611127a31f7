/*
 * Lists of paths, each under the name of its content (SHA-256): what a job that names many paths
 * refers to, so that every server can compute its share of the same list.
 *
 *   POST /v1/lists           a path a line -> {"digest","paths","duplicates"}
 *   GET  /v1/lists/DIGEST    the list, as it is kept: clean, no path twice
 *
 * They are files STATE/lists/DIGEST. Server 0 has those of the cluster; the others fetch what they
 * miss from it. One that nobody used for a month goes.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "file.h"
#include "hash.h"
#include "mem.h"
#include "server-internal.h"

#define DIGEST_LEN 64
#define KEEP_S     (30 * 86400)
#define NEW_S      3600 /* whoever wrote it was killed */

/* --- clean ------------------------------------------------------------------------------------ */

/* Which lines there are: a table of where they begin, open addressing. */
struct seen {
    uint32_t *slots; /* 1 + offset into the clean text; 0: free */
    size_t mask;
};

/* Lines end in '\n'. True: it is new. */
static bool add_seen(struct seen *s, const struct bytes *text, const char *line, size_t len)
{
    size_t at = hash64(line, len, 0) & s->mask;
    for (; s->slots[at]; at = (at + 1) & s->mask) {
        const char *old = text->data ? text->data + s->slots[at] - 1 : "";
        if (strncmp(old, line, len) == 0 && old[len] == '\n')
            return false;
    }
    s->slots[at] = (uint32_t)text->len + 1;
    return true;
}

static size_t slots_for(const char *text, size_t len)
{
    size_t lines = 1, n = 16;
    for (const char *p = text; (p = memchr(p, '\n', len - (size_t)(p - text))); p++)
        lines++;
    while (n < 2 * lines)
        n *= 2;
    return n;
}

/* The path of a line: without the '\r' that other systems end it with, slashes around it, and "./"
 * before it. Blanks are part of a name. */
static const char *clean_line(const char *line, size_t *len)
{
    while (*len && line[*len - 1] == '\r')
        (*len)--;
    for (;;) {
        if (*len >= 2 && line[0] == '.' && line[1] == '/')
            line += 2, *len -= 2;
        else if (*len && *line == '/')
            line++, (*len)--;
        else
            break;
    }
    while (*len && line[*len - 1] == '/')
        (*len)--;
    return line;
}

/* Clean lines, none twice. A path that leads out of the set is an error that names its line. */
static int lists_clean(const char *text, size_t len, struct bytes *ret, uint64_t *ret_paths,
                       uint64_t *ret_duplicates, struct err *err)
{
    struct seen seen = {.mask = slots_for(text, len) - 1};
    cleanup_free uint32_t *slots = xcalloc(seen.mask + 1, sizeof *slots);
    seen.slots = slots;
    uint64_t n = 0, number = 0, twice = 0;
    if (memchr(text, '\0', len))
        return err_set(err, ERR_USAGE, "list: it has a zero byte (want a path a line, as text)");
    for (const char *p = text, *end = text + len, *next; p < end; p = next) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        size_t line_len = (size_t)((newline ? newline : end) - p);
        next = newline ? newline + 1 : end;
        number++;
        const char *line = clean_line(p, &line_len);
        if (!line_len)
            continue;
        cleanup_free char *path = xstrndup(line, line_len);
        if (options_check_path(path, err))
            return err_wrap(err, "list: line %llu", (unsigned long long)number);
        if (!add_seen(&seen, ret, line, line_len)) {
            twice++;
            continue;
        }
        bytes_add(ret, line, line_len);
        bytes_add_char(ret, '\n');
        n++;
    }
    *ret_paths = n;
    *ret_duplicates = twice;
    return n ? 0 : err_set(err, ERR_USAGE, "list: no path in it");
}

/* --- files ------------------------------------------------------------------------------------ */

static char *file_of(const struct server *s, const char *digest)
{
    return xasprintf("%s/lists/%s", s->conf.state, digest);
}

static int read_list(const struct server *s, const char *digest, struct bytes *ret, struct err *err)
{
    cleanup_free char *path = file_of(s, digest);
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    if (fd < 0 && errno == ENOENT)
        return err_set(err, ERR_NOT_FOUND, "list %s: there is none (POST it to /v1/lists)", digest);
    if (fd < 0 || fstat(fd, &st))
        return err_sys(err, errno, "%s", path);
    bytes_reserve(ret, (size_t)st.st_size + 1);
    ssize_t n = file_read(fd, ret->data, (size_t)st.st_size, 0);
    if (n < 0)
        return err_sys(err, errno, "%s", path);
    ret->len = (size_t)n;
    ret->data[n] = '\0';
    char sum[DIGEST_LEN + 1];
    sha256_hex(sum, ret->data, ret->len);
    if (strcmp(sum, digest) != 0)
        return err_set(err, ERR_CORRUPT, "%s: its content is not what its name says", path);
    futimens(fd, NULL); /* it is in use */
    return 0;
}

/* Whole or not there, also after a power loss. */
static int write_list(const struct server *s, const char *digest, const struct bytes *text,
                      struct err *err)
{
    cleanup_free char *dir = xasprintf("%s/lists", s->conf.state);
    cleanup_free char *path = file_of(s, digest);
    cleanup_free char *new = xasprintf("%s/.new-XXXXXX", dir);
    bool is_new = mkdir(dir, 0700) == 0;
    if ((!is_new && errno != EEXIST) || (is_new && file_sync_name(dir)))
        return err_sys(err, errno, "%s", dir);
    cleanup_close int fd = mkostemp(new, O_CLOEXEC);
    if (fd >= 0 && file_write(fd, text->data, text->len, 0) == 0 && fsync(fd) == 0 &&
        rename(new, path) == 0 && file_sync_name(path) == 0)
        return 0;
    int e = errno;
    if (fd >= 0)
        unlink(new);
    return err_sys(err, e, "%s", path);
}

static void forget_old(const struct server *s)
{
    cleanup_free char *dir = xasprintf("%s/lists", s->conf.state);
    cleanup_dir DIR *d = opendir(dir);
    const struct dirent *e;
    while (d && (e = readdir(d))) {
        struct stat st;
        time_t keep = e->d_name[0] == '.' ? NEW_S : KEEP_S;
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            st.st_mtime < time(NULL) - keep)
            unlinkat(dirfd(d), e->d_name, 0);
    }
}

/* --- for jobs --------------------------------------------------------------------------------- */

int lists_check(const struct server *s, const char *digest, struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    if (!hex_is(digest, DIGEST_LEN))
        return err_set(err, ERR_USAGE, "\"%.80s\": want the digest that POST /v1/lists gave",
                       digest);
    if (s->conf.ordinal != 0 && members_are_several(s->members))
        return 0; /* it is fetched when it is needed */
    if (read_list(s, digest, &text, err) == 0)
        return 0;
    if (err && err->class == ERR_NOT_FOUND)
        err->class = ERR_USAGE; /* it is the job that is wrong */
    return -1;
}

static int fetch_list(struct server *s, const char *digest, struct bytes *ret, struct err *err)
{
    cleanup_free char *path = xasprintf("/v1/lists/%s", digest);
    struct member_answer answer = {0};
    char sum[DIGEST_LEN + 1] = "";
    int rc = members_call(s->members, 0, "GET", path, NULL, &answer, err);
    if (!rc && answer.status == MHD_HTTP_NOT_FOUND)
        rc = err_set(err, ERR_NOT_FOUND, "list %s: server 0 has none (POST it to /v1/lists)",
                     digest);
    else if (!rc && answer.status != MHD_HTTP_OK)
        rc = err_set(err, ERR_TRANSIENT, "list %s: server 0 answers with status %u", digest,
                     answer.status);
    if (!rc)
        sha256_hex(sum, answer.body.data, answer.body.len);
    if (!rc && strcmp(sum, digest) != 0)
        rc = err_set(err, ERR_CORRUPT, "list %s: server 0 sent another content", digest);
    if (!rc)
        rc = write_list(s, digest, &answer.body, err);
    if (!rc)
        bytes_add(ret, answer.body.data, answer.body.len);
    bytes_release(&answer.body);
    return rc;
}

int lists_get(struct server *s, const char *digest, struct bytes *ret, struct err *err)
{
    struct err why = {0};
    if (read_list(s, digest, ret, &why) == 0)
        return 0;
    bytes_clear(ret);
    if (s->conf.ordinal != 0 && members_are_several(s->members))
        return fetch_list(s, digest, ret, err);
    if (err)
        *err = why;
    return -1;
}

/* --- routes ----------------------------------------------------------------------------------- */

int lists_keep(const struct server *s, const char *text, size_t len, char ret_digest[65],
               uint64_t *ret_paths, uint64_t *ret_duplicates, struct err *err)
{
    cleanup_bytes struct bytes clean = {0};
    if (lists_clean(text, len, &clean, ret_paths, ret_duplicates, err))
        return -1;
    sha256_hex(ret_digest, clean.data, clean.len);
    forget_old(s);
    return write_list(s, ret_digest, &clean, err);
}

void serve_list_post(struct request *r, struct answer *a)
{
    struct err err = {0};
    struct json_writer w;
    uint64_t paths = 0, duplicates = 0;
    char digest[DIGEST_LEN + 1];
    if (cluster_relayed(r, a))
        return;
    if (lists_keep(r->server, r->body.data ? r->body.data : "", r->body.len, digest, &paths,
                   &duplicates, &err)) {
        answer_error(a, &err);
        return;
    }
    answer_json(a, &w);
    jw_object(&w, NULL);
    jw_str(&w, "digest", digest);
    jw_uint(&w, "paths", paths);
    jw_uint(&w, "duplicates", duplicates);
    jw_end(&w);
}

void serve_list_get(struct request *r, struct answer *a)
{
    struct err err = {0};
    if (!hex_is(r->id, DIGEST_LEN))
        err_set(&err, ERR_NOT_FOUND, "list %.80s: there is none", r->id);
    else if (lists_get(r->server, r->id, &a->body, &err) == 0) {
        a->status = MHD_HTTP_OK;
        a->type = "text/plain; charset=utf-8";
        return;
    }
    answer_error(a, &err);
}

/* See stage-testing.h. */
#include "stage-testing.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <ftw.h>
#include <openssl/evp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "clock.h"
#include "hash.h"
#include "http.h"
#include "mem.h"

const struct stage_call waits = {.wait = true, .uid = 1000, .gid = 1000};
const struct stage_call hurries = {.uid = 1000, .gid = 1000};

static void start_server(struct bench *b)
{
    int in[2], out[2];
    cr_assert(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    b->pid = fork();
    cr_assert_geq(b->pid, 0);
    if (b->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], 0);
        dup2(out[1], 1);
        unsetenv("LD_PRELOAD");
        execlp("python3", "python3", "tests/servers/s3mem.py", (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    FILE *said = fdopen(out[0], "r");
    cr_assert_eq(fscanf(said, "listening on %u", &b->port), 1, "the server did not start");
    fclose(said);
    b->stop_fd = in[1];
}

void bench_connect(struct bench *b)
{
    struct err err = {0};
    char uri[256];
    const struct store_conf conf = {.anonymous = true, .region = "us-east-1"};
    if (b->s3)
        snprintf(uri, sizeof uri, "minio://127.0.0.1:%u/b/out", b->port);
    else
        snprintf(uri, sizeof uri, "file://%s", b->bucket);
    cr_assert_eq(store_open(&b->store, uri, &conf, &err), 0, "%s", err.msg);
    struct fetch_conf fc;
    fetch_conf_defaults(&fc);
    fc.max_tries = 4;
    fc.away_ns = 0;
    fc.hedge = false;
    cr_assert_eq(fetch_new(&b->fetch, &fc, &err), 0, "%s", err.msg);
}

static void make_folders(struct bench *b)
{
    snprintf(b->root, sizeof b->root, "/tmp/sampan-stage-XXXXXX");
    cr_assert(mkdtemp(b->root));
    snprintf(b->dir, sizeof b->dir, "%s/stage", b->root);
    cr_assert_eq(mkdir(b->dir, 0700), 0);
    if (!*b->bucket) {
        snprintf(b->bucket, sizeof b->bucket, "%s/bucket", b->root);
        cr_assert_eq(mkdir(b->bucket, 0700), 0);
    }
}

void bench_start(struct bench *b, bool s3)
{
    bench_start_bare(b, s3);
    bench_connect(b);
}

void bench_start_bare(struct bench *b, bool s3)
{
    *b = (struct bench){.s3 = s3, .stop_fd = -1};
    make_folders(b);
    if (s3)
        start_server(b);
    b->conf = (struct stage_conf){.limit = 1ull << 30,
                                  .commit = COMMIT_CLOSE,
                                  .refresh_ns = 2 * NS_PER_S,
                                  .uid = 1000,
                                  .gid = 1000,
                                  .patience_ns = 300 * NS_PER_S};
}

void bench_other(struct bench *b, const struct bench *of)
{
    *b = (struct bench){.s3 = of->s3, .port = of->port, .stop_fd = -1, .conf = of->conf};
    memcpy(b->bucket, of->bucket, sizeof b->bucket);
    make_folders(b);
    bench_connect(b);
}

void bench_open(struct bench *b, bool fresh)
{
    struct err err = {0};
    b->conf.dir = b->dir;
    b->conf.store = b->store;
    b->conf.fetch = b->fetch;
    b->conf.fresh = fresh;
    cr_assert_eq(stage_open(&b->s, &b->conf, &err), 0, "%s", err.msg);
}

void bench_close(struct bench *b)
{
    stage_close(b->s);
    b->s = NULL;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

void bench_stop(struct bench *b)
{
    bench_close(b);
    fetch_free(b->fetch);
    store_close(b->store);
    if (b->stop_fd >= 0)
        close(b->stop_fd);
    if (b->pid)
        waitpid(b->pid, NULL, 0);
    nftw(b->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void ask(const struct bench *b, const char *path, char *ret, size_t size)
{
    struct http_req r;
    struct http_answer a;
    struct bytes body = {0};
    struct err err = {0};
    http_req_init(&r, HTTP_GET);
    bytes_addf(&r.url, "http://127.0.0.1:%u%s", b->port, path);
    cr_assert_eq(http_do(&r, &(struct http_peer){0}, 300 * NS_PER_S, 4000, &a, &body, &err), 0,
                 "%s", err.msg);
    snprintf(ret, size, "%s", body.data ? body.data : "");
    bytes_release(&body);
    http_req_release(&r);
}

unsigned ask_number(const struct bench *b, const char *path)
{
    char text[64];
    ask(b, path, text, sizeof text);
    return (unsigned)strtoul(text, NULL, 10);
}

/* --- calls ----------------------------------------------------------------------------------- */

uint64_t t_lookup(struct bench *b, uint64_t parent, const char *name)
{
    struct stage_attr a;
    struct err err = {0};
    cr_assert_eq(stage_lookup(b->s, &waits, parent, name, &a, &err), 0, "%s: %s", name, err.msg);
    stage_forget(b->s, a.st.st_ino, 1);
    return a.st.st_ino;
}

uint64_t t_create(struct bench *b, uint64_t parent, const char *name, uint64_t *ret_fh)
{
    struct stage_attr a;
    struct err err = {0};
    cr_assert_eq(stage_create(b->s, &waits, parent, name, 0644, O_RDWR | O_CREAT, &a, ret_fh, &err),
                 0, "%s: %s", name, err.msg);
    return a.st.st_ino;
}

uint64_t t_open(struct bench *b, uint64_t ino, int flags)
{
    uint64_t fh = 0;
    struct err err = {0};
    cr_assert_eq(stage_open_file(b->s, &waits, ino, flags, &fh, &err), 0, "%s", err.msg);
    return fh;
}

uint64_t t_mkdir(struct bench *b, uint64_t parent, const char *name)
{
    struct stage_attr a;
    struct err err = {0};
    cr_assert_eq(stage_mkdir(b->s, &waits, parent, name, 0755, &a, &err), 0, "%s: %s", name,
                 err.msg);
    return a.st.st_ino;
}

void t_write(struct bench *b, uint64_t fh, uint64_t off, const char *text)
{
    struct err err = {0};
    cr_assert_eq(stage_write(b->s, &waits, fh, off, text, strlen(text), &err), 0, "%s", err.msg);
}

void t_close(struct bench *b, uint64_t fh)
{
    struct err err = {0};
    cr_assert_eq(stage_flush(b->s, &waits, fh, &err), 0, "%s", err.msg);
    cr_assert_eq(stage_release(b->s, &waits, fh, &err), 0, "%s", err.msg);
}

void t_file(struct bench *b, uint64_t parent, const char *name, const char *text)
{
    uint64_t fh;
    t_create(b, parent, name, &fh);
    t_write(b, fh, 0, text);
    t_close(b, fh);
}

void t_rename(struct bench *b, uint64_t from, const char *name, uint64_t to, const char *new_name)
{
    struct err err = {0};
    cr_assert_eq(stage_rename(b->s, &waits, from, name, to, new_name, 0, &err), 0, "%s: %s", name,
                 err.msg);
}

void t_unlink(struct bench *b, uint64_t parent, const char *name)
{
    struct err err = {0};
    cr_assert_eq(stage_unlink(b->s, &waits, parent, name, &err), 0, "%s: %s", name, err.msg);
}

uint64_t t_size(struct bench *b, uint64_t ino)
{
    struct stage_attr a;
    struct err err = {0};
    cr_assert_eq(stage_getattr(b->s, &waits, ino, &a, &err), 0, "%s", err.msg);
    return (uint64_t)a.st.st_size;
}

int lookup_errno(struct bench *b, uint64_t parent, const char *name)
{
    struct stage_attr a;
    struct err err = {0};
    if (stage_lookup(b->s, &waits, parent, name, &a, &err))
        return err_errno(&err);
    stage_forget(b->s, a.st.st_ino, 1);
    return 0;
}

void expect_text(struct bench *b, uint64_t parent, const char *name, const char *text)
{
    struct err err = {0};
    if (!text) {
        cr_expect_eq(lookup_errno(b, parent, name), ENOENT, "%s is there", name);
        return;
    }
    uint64_t fh = t_open(b, t_lookup(b, parent, name), O_RDONLY);
    char buf[4096] = "";
    size_t n = 0;
    cr_assert_eq(stage_read(b->s, &waits, fh, 0, buf, sizeof buf - 1, &n, &err), 0, "%s: %s", name,
                 err.msg);
    cr_expect(n == strlen(text) && memcmp(buf, text, n) == 0, "%s: \"%s\" instead of \"%s\"", name,
              buf, text);
    t_close(b, fh);
}

void sum_of(const void *data, size_t len, char ret[33])
{
    uint8_t sum[16];
    cr_assert(EVP_Digest(data, len, sum, NULL, EVP_md5(), NULL));
    hex_encode(ret, sum, sizeof sum);
}

static void expect_local(struct bench *b, const char *key, const char *text)
{
    char path[512], buf[4096] = "";
    snprintf(path, sizeof path, "%s/%s", b->bucket, key);
    int fd = open(path, O_RDONLY);
    cr_expect_eq(fd >= 0, text != NULL, "%s: %s", key, fd >= 0 ? "there" : "not there");
    if (fd < 0)
        return;
    ssize_t n = read(fd, buf, sizeof buf - 1);
    close(fd);
    cr_expect(!text || (n == (ssize_t)strlen(text) && strcmp(buf, text) == 0),
              "%s: \"%s\" is stored instead of \"%s\"", key, buf, text);
}

void expect_stored(struct bench *b, const char *key, const char *text)
{
    if (!b->s3) {
        expect_local(b, key, text);
        return;
    }
    char sum[64], want[33];
    struct bytes path = {0};
    bytes_add_str(&path, "/_md5/out/");
    url_encode(&path, key, strlen(key), true);
    ask(b, path.data, sum, sizeof sum);
    bytes_release(&path);
    if (text)
        sum_of(text, strlen(text), want);
    cr_expect_str_eq(sum, text ? want : "-", "%s", key);
}

struct names {
    char *all[256];
    size_t n;
};

static bool take_name(void *arg, const char *name, const struct stage_attr *attr, uint64_t cookie)
{
    struct names *l = arg;
    cr_expect_eq(attr->st.st_ino, cookie);
    if (l->n < 256)
        l->all[l->n++] = xstrdup(name);
    return true;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void names_in(struct bench *b, uint64_t ino, char *ret, size_t size)
{
    struct names l = {.n = 0};
    struct err err = {0};
    cr_assert_eq(stage_readdir(b->s, &waits, ino, 0, take_name, &l, &err), 0, "%s", err.msg);
    qsort(l.all, l.n, sizeof l.all[0], by_text);
    struct bytes text = {0};
    for (size_t i = 0; i < l.n; i++) {
        bytes_addf(&text, "%s%s", i ? " " : "", l.all[i]);
        free(l.all[i]);
    }
    snprintf(ret, size, "%s", text.data ? text.data : "");
    bytes_release(&text);
}

void t_settle(struct bench *b)
{
    struct err err = {0};
    cr_assert_eq(stage_settle(b->s, 0, &err), 0, "%s", err.msg);
}

void on_both(void (*fn)(struct bench *b), void (*configure)(struct stage_conf *c))
{
    for (int s3 = 0; s3 < 2; s3++) {
        struct bench b;
        bench_start(&b, s3);
        if (configure)
            configure(&b.conf);
        bench_open(&b, true);
        fn(&b);
        bench_stop(&b);
    }
}

char *t_pending(struct bench *b)
{
    struct bytes text = {0};
    struct json_writer w;
    jw_init(&w, &text);
    jw_object(&w, NULL);
    stage_pending(b->s, &w);
    jw_end(&w);
    return bytes_take(&text);
}

void expect_pending(struct bench *b, const char *words)
{
    cleanup_free char *text = t_pending(b);
    cr_expect(strstr(text, words), "%s not in %s", words, text);
}

void t_until_pending(struct bench *b, const char *words)
{
    for (bool there = false; !there; usleep(10000)) {
        cleanup_free char *text = t_pending(b);
        there = strstr(text, words);
    }
}

void t_journal_full(const struct bench *b, bool full)
{
    struct rlimit r;
    struct stat st;
    cleanup_free char *wal = xasprintf("%s/journal.db-wal", b->dir);
    cr_assert(stat(wal, &st) == 0 && getrlimit(RLIMIT_FSIZE, &r) == 0);
    r.rlim_cur = full ? (rlim_t)st.st_size : r.rlim_max;
    cr_assert(signal(SIGXFSZ, SIG_IGN) != SIG_ERR && setrlimit(RLIMIT_FSIZE, &r) == 0);
}

/*
 * A life that is killed at any moment. A child works on a stage: it writes, renames and removes,
 * and tells of each call that was answered. It is killed at a seeded
 * moment; the next life takes over, repeats the call that was in hand as the kernel does, and the
 * work goes on. At the end everything is settled and the store must hold exactly what the model
 * says.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "clock.h"
#include "hash.h"
#include "mem.h"
#include "stage-testing.h"

#define FILES     6
#define CALLS     160
#define SIZE_MAX_ 40000

/* Shared with the child: what was asked and answered. */
struct shared {
    _Atomic unsigned answered; /* so many calls */
};

enum what { WRITE, TRUNCATE, MOVE, REMOVE, CLOSE };

struct plan {
    enum what what;
    unsigned file, other;
    uint64_t off, len;
    unsigned char fill;
};

static uint64_t next(uint64_t *seed)
{
    *seed = hash_mix64(*seed + 0x9e3779b97f4a7c15ull);
    return *seed;
}

static void make_plan(struct plan *p, uint64_t seed)
{
    for (unsigned i = 0; i < CALLS; i++) {
        uint64_t r = next(&seed);
        p[i] = (struct plan){.file = (unsigned)(r % FILES),
                             .other = (unsigned)(r / 7 % FILES),
                             .off = r / 31 % 30000,
                             .len = 1 + r / 77 % 9000,
                             .fill = (unsigned char)(1 + i % 250)};
        unsigned dice = (unsigned)(r >> 40) % 20;
        p[i].what = dice < 9    ? WRITE
                    : dice < 11 ? TRUNCATE
                    : dice < 13 ? MOVE
                    : dice < 14 ? REMOVE
                                : CLOSE;
    }
}

/* --- the model ------------------------------------------------------------------------------- */

struct file {
    bool there;
    size_t size;
    unsigned char data[SIZE_MAX_];
};

static void model_do(struct file *f, const struct plan *p)
{
    struct file *a = &f[p->file];
    switch (p->what) {
    case WRITE:
        a->there = true;
        if (p->off > a->size)
            memset(a->data + a->size, 0, p->off - a->size);
        memset(a->data + p->off, p->fill, p->len);
        if (p->off + p->len > a->size)
            a->size = p->off + p->len;
        break;
    case TRUNCATE:
        if (a->there && p->off > a->size)
            memset(a->data + a->size, 0, p->off - a->size);
        if (a->there)
            a->size = p->off;
        break;
    case MOVE:
        if (a->there && p->file != p->other) {
            f[p->other] = *a;
            *a = (struct file){.there = false};
        }
        break;
    case REMOVE:
        *a = (struct file){.there = false};
        break;
    case CLOSE:
        break;
    }
}

/* --- the work -------------------------------------------------------------------------------- */

struct work {
    struct bench *b;
    uint64_t fh[FILES]; /* open files, by name; 0: closed */
};

static void name_of(unsigned file, char out[8])
{
    snprintf(out, 8, "f%u", file);
}

/* A call's number; each plan has a few. */
static struct stage_call call_of(unsigned i, unsigned step)
{
    return (struct stage_call){.unique = 2 * (8ull * i + step) + 2, .wait = true};
}

static int open_for_write(struct work *w, unsigned i, unsigned file, struct err *err)
{
    char name[8];
    struct stage_attr a;
    struct stage_call c = call_of(i, 0);
    name_of(file, name);
    return w->fh[file] ? 0
                       : stage_create(w->b->s, &c, STAGE_ROOT, name, 0644, O_RDWR | O_CREAT, &a,
                                      &w->fh[file], err);
}

static void close_file(struct work *w, unsigned i, unsigned file)
{
    struct stage_call c = call_of(i, 3);
    if (!w->fh[file])
        return;
    stage_flush(w->b->s, &c, w->fh[file], NULL);
    stage_release(w->b->s, &c, w->fh[file], NULL);
    w->fh[file] = 0;
}

static int do_write(struct work *w, unsigned i, const struct plan *p, struct err *err)
{
    unsigned char buf[9001];
    struct stage_call c = call_of(i, 1);
    memset(buf, p->fill, p->len);
    return open_for_write(w, i, p->file, err) ||
                   stage_write(w->b->s, &c, w->fh[p->file], p->off, buf, p->len, err)
               ? -1
               : 0;
}

static int do_truncate(struct work *w, unsigned i, const struct plan *p, struct err *err)
{
    char name[8];
    struct stage_attr a;
    struct stage_call c = call_of(i, 1);
    name_of(p->file, name);
    if (lookup_errno(w->b, STAGE_ROOT, name) == ENOENT)
        return 0;
    return stage_setattr(w->b->s, &c, t_lookup(w->b, STAGE_ROOT, name),
                         &(struct stat){.st_size = (off_t)p->off}, STAGE_SET_SIZE, &a, err);
}

static int do_call(struct work *w, unsigned i, const struct plan *p, struct err *err)
{
    char name[8], other[8];
    struct stage_call c = call_of(i, 1);
    int result = 0;
    name_of(p->file, name);
    name_of(p->other, other);
    switch (p->what) {
    case WRITE:
        return do_write(w, i, p, err);
    case TRUNCATE:
        return do_truncate(w, i, p, err);
    case MOVE:
        if (p->file == p->other)
            return 0;
        close_file(w, i, p->other);
        close_file(w, i, p->file);
        result = stage_rename(w->b->s, &c, STAGE_ROOT, name, STAGE_ROOT, other, 0, err);
        break;
    case REMOVE:
        close_file(w, i, p->file);
        result = stage_unlink(w->b->s, &c, STAGE_ROOT, name, err);
        break;
    case CLOSE:
        close_file(w, i, p->file);
        break;
    }
    return result && err_errno(err) != ENOENT ? -1 : 0;
}

/* The child: from call `first` to the end, or its own: a moment after call `last` began. What was
 * open stays open in its own life only. */
static void child(struct bench *b, struct shared *shared, const struct plan *plan, unsigned first,
                  unsigned last, unsigned late_us)
{
    const struct itimerval late = {.it_value.tv_usec = late_us};
    struct work w = {.b = b};
    struct err err = {0};
    bench_open(b, false);
    for (unsigned i = first; i < CALLS; i++) {
        if (i == last) /* its default action ends the process as it stands, as SIGKILL does */
            setitimer(ITIMER_REAL, &late, NULL);
        if (do_call(&w, i, &plan[i], &err)) {
            fprintf(stderr, "call %u: %s\n", i, err.msg);
            _exit(3);
        }
        atomic_store(&shared->answered, i + 1);
    }
    for (unsigned f = 0; f < FILES; f++)
        close_file(&w, CALLS, f);
    _exit(0);
}

static void compare(struct bench *b, const struct file *files, uint64_t seed)
{
    static unsigned char buf[SIZE_MAX_];
    for (unsigned f = 0; f < FILES; f++) {
        char name[8], path[32], got[64], want[33];
        struct err err = {0};
        size_t n = 0;
        name_of(f, name);
        int e = lookup_errno(b, STAGE_ROOT, name);
        cr_assert_eq(e, files[f].there ? 0 : ENOENT, "seed %llu: %s: %s", (unsigned long long)seed,
                     name, strerror(e));
        if (e)
            continue;
        uint64_t fh = t_open(b, t_lookup(b, STAGE_ROOT, name), O_RDONLY);
        cr_assert_eq(stage_read(b->s, &waits, fh, 0, buf, sizeof buf, &n, &err), 0, "%s", err.msg);
        cr_assert(n == files[f].size && memcmp(buf, files[f].data, n) == 0,
                  "seed %llu: %s: wrong bytes (%zu of %zu)", (unsigned long long)seed, name, n,
                  files[f].size);
        t_close(b, fh);
        if (!b->s3)
            continue;
        snprintf(path, sizeof path, "/_md5/out/%s", name);
        ask(b, path, got, sizeof got);
        sum_of(files[f].data, files[f].size, want);
        cr_assert_str_eq(got, want, "seed %llu: %s is stored wrong", (unsigned long long)seed,
                         name);
    }
}

/* Ends with the number of lives. */
static unsigned run(struct bench *b, uint64_t seed)
{
    struct plan plan[CALLS];
    struct file *files = xcalloc(FILES, sizeof *files);
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    make_plan(plan, seed);
    unsigned lives = 0;
    uint64_t moments = seed;
    /* All calls together take some milliseconds where none of them waits for the store. */
    unsigned most_us = b->s3 && b->conf.commit == COMMIT_CLOSE ? 4000 : 300;
    for (bool over = false; !over; lives++) {
        unsigned first = atomic_load(&shared->answered);
        unsigned last = first + (unsigned)(next(&moments) % (CALLS / 4));
        unsigned late_us = 1 + (unsigned)(next(&moments) % most_us);
        pid_t pid = fork();
        if (pid == 0) {
            bench_connect(b);
            child(b, shared, plan, first, last, late_us);
        }
        int status;
        waitpid(pid, &status, 0);
        over = WIFEXITED(status);
        cr_assert(!over || WEXITSTATUS(status) == 0, "seed %llu", (unsigned long long)seed);
    }
    for (unsigned i = 0; i < CALLS; i++)
        model_do(files, &plan[i]);
    bench_connect(b);
    bench_open(b, true);
    t_settle(b);
    compare(b, files, seed);
    if (b->s3) {
        unsigned there = 0;
        for (unsigned f = 0; f < FILES; f++)
            there += files[f].there;
        cr_expect_eq(ask_number(b, "/_objects"), there, "objects too many or too few");
        cr_expect_eq(ask_number(b, "/_uploads"), 0);
    }
    bench_close(b);
    munmap(shared, sizeof *shared);
    free(files);
    return lives;
}

static void rounds(bool s3, enum stage_commit commit)
{
    unsigned lives = 0;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        struct bench b;
        bench_start_bare(&b, s3);
        b.conf.commit = commit;
        b.conf.grace_ns = s3 ? 80 * NS_PER_MS : 1;
        lives += run(&b, seed * 1000 + commit);
        bench_stop(&b);
    }
    cr_expect_geq(lives, 4, "too few were killed for this to mean anything");
}

Test(kill, close_local)
{
    rounds(false, COMMIT_CLOSE);
}

Test(kill, close_s3)
{
    rounds(true, COMMIT_CLOSE);
}

Test(kill, background_local)
{
    rounds(false, COMMIT_BACKGROUND);
}

Test(kill, background_s3)
{
    rounds(true, COMMIT_BACKGROUND);
}

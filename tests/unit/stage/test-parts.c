/* Uploads in parts: while writing goes on, taken up by the next life, given up; over S3. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "clock.h"
#include "mem.h"
#include "stage-testing.h"

#define MIB (1u << 20)

static unsigned char *pattern(size_t len, unsigned seed)
{
    unsigned char *data = xmalloc(len);
    for (size_t i = 0; i < len; i++)
        data[i] = (unsigned char)(i * 7 + (i >> 11) * 13 + seed);
    return data;
}

static void put(struct bench *b, uint64_t fh, uint64_t off, const void *data, size_t len)
{
    struct err err = {0};
    for (size_t done = 0; done < len;) {
        size_t n = len - done < MIB ? len - done : MIB;
        cr_assert_eq(stage_write(b->s, &waits, fh, off + done, (const char *)data + done, n, &err),
                     0, "%s", err.msg);
        done += n;
    }
}

static void expect_sum(struct bench *b, const char *key, const void *data, size_t len)
{
    char path[128], got[64], want[33];
    snprintf(path, sizeof path, "/_md5/out/%s", key);
    ask(b, path, got, sizeof got);
    sum_of(data, len, want);
    cr_expect_str_eq(got, want, "%s", key);
}

static void until(struct bench *b, const char *path, unsigned least)
{
    for (int i = 0; i < 30000 && ask_number(b, path) < least; i++)
        usleep(10000);
    cr_assert_geq(ask_number(b, path), least, "%s", path);
}

static void begin(struct bench *b)
{
    bench_start(b, true);
    bench_open(b, true);
}

Test(parts, go_up_while_writing_goes_on)
{
    struct bench b;
    begin(&b);
    size_t len = 40 * MIB + 5;
    unsigned char *data = pattern(len, 1);
    uint64_t fh;
    t_create(&b, STAGE_ROOT, "big", &fh);
    put(&b, fh, 0, data, 30 * MIB);
    until(&b, "/_count/PART", 3);
    expect_stored(&b, "big", NULL);
    put(&b, fh, 30 * MIB, data + 30 * MIB, len - 30 * MIB);
    t_close(&b, fh);
    expect_sum(&b, "big", data, len);
    cr_expect_eq(ask_number(&b, "/_uploads"), 0);
    cr_expect_eq(ask_number(&b, "/_count/PART"), 6);
    /* A small change: what is as before is copied by the store. */
    data[20 * MIB] ^= 255;
    fh = t_open(&b, t_lookup(&b, STAGE_ROOT, "big"), O_RDWR);
    put(&b, fh, 20 * MIB, data + 20 * MIB, 1);
    t_close(&b, fh);
    expect_sum(&b, "big", data, len);
    cr_expect_eq(ask_number(&b, "/_count/COPY"), 5);
    ask_number(&b, "/_set?nocopy=1");
    data[0] ^= 255;
    fh = t_open(&b, t_lookup(&b, STAGE_ROOT, "big"), O_RDWR);
    put(&b, fh, 0, data, 1);
    t_close(&b, fh);
    expect_sum(&b, "big", data, len);
    char history[64];
    ask(&b, "/_history/out/big", history, sizeof history);
    cr_expect_str_eq(history, "41943045,41943045,41943045");
    free(data);
    bench_stop(&b);
}

Test(parts, written_again_go_up_again)
{
    struct bench b;
    begin(&b);
    size_t len = 33 * MIB;
    unsigned char *data = pattern(len, 2);
    uint64_t fh;
    t_create(&b, STAGE_ROOT, "big", &fh);
    put(&b, fh, 0, data, len);
    until(&b, "/_count/PART", 2);
    memset(data + 3, 'x', 100);
    put(&b, fh, 3, data + 3, 100);
    memset(data + 9 * MIB, 'y', 100);
    put(&b, fh, 9 * MIB, data + 9 * MIB, 100);
    t_close(&b, fh);
    expect_sum(&b, "big", data, len);
    struct stage_attr a;
    struct err err = {0};
    uint64_t ino = t_lookup(&b, STAGE_ROOT, "big");
    cr_assert_eq(stage_setattr(b.s, &waits, ino, &(struct stat){.st_size = 17 * MIB + 1},
                               STAGE_SET_SIZE, &a, &err),
                 0, "%s", err.msg);
    expect_sum(&b, "big", data, 17 * MIB + 1);
    cr_assert_eq(
        stage_setattr(b.s, &waits, ino, &(struct stat){.st_size = 5}, STAGE_SET_SIZE, &a, &err), 0,
        "%s", err.msg);
    expect_sum(&b, "big", data, 5);
    cr_expect_eq(ask_number(&b, "/_uploads"), 0);
    free(data);
    bench_stop(&b);
}

Test(parts, are_taken_up_by_the_next_life)
{
    struct bench b;
    begin(&b);
    size_t len = 41 * MIB;
    unsigned char *data = pattern(len, 3);
    uint64_t fh;
    t_create(&b, STAGE_ROOT, "big", &fh);
    put(&b, fh, 0, data, 34 * MIB);
    until(&b, "/_count/PART", 4);
    bench_close(&b);
    bench_open(&b, false);
    put(&b, fh, 34 * MIB, data + 34 * MIB, len - 34 * MIB);
    t_close(&b, fh);
    expect_sum(&b, "big", data, len);
    cr_expect_leq(ask_number(&b, "/_count/PART"), 7, "parts went up again");
    cr_expect_eq(ask_number(&b, "/_uploads"), 0);
    free(data);
    bench_stop(&b);
}

/* Parts whose bytes came from here; the server counts those that it copied itself, too. */
static unsigned parts_sent(const struct bench *b)
{
    return ask_number(b, "/_count/PART") - ask_number(b, "/_count/COPY");
}

/* Too large for one copy: the store copies it in parts, and no byte comes here. */
Test(parts, a_large_object_is_renamed)
{
    struct bench b, other;
    bench_start(&b, true);
    b.conf.copy_max = 20 * MIB;
    bench_open(&b, true);
    size_t len = 41 * MIB + 3;
    unsigned char *data = pattern(len, 6);
    uint64_t fh;
    t_create(&b, STAGE_ROOT, "big.tmp", &fh);
    put(&b, fh, 0, data, len);
    t_close(&b, fh);
    unsigned parts = parts_sent(&b);
    t_rename(&b, STAGE_ROOT, "big.tmp", STAGE_ROOT, "big");
    expect_sum(&b, "big", data, len);
    expect_stored(&b, "big.tmp", NULL);
    cr_expect_eq(parts_sent(&b), parts);
    cr_expect_eq(ask_number(&b, "/_count/COPY"), 6);
    cr_expect_eq(ask_number(&b, "/_uploads"), 0);
    bench_other(&other, &b); /* which has nothing of it */
    bench_open(&other, true);
    unsigned fetched = ask_number(&b, "/_count/GET");
    t_rename(&other, STAGE_ROOT, "big", t_mkdir(&other, STAGE_ROOT, "d"), "moved");
    expect_sum(&b, "d/moved", data, len);
    expect_stored(&b, "big", NULL);
    cr_expect_eq(parts_sent(&b), parts);
    cr_expect_eq(ask_number(&b, "/_count/GET"), fetched);
    cr_expect_eq(ask_number(&b, "/_uploads"), 0);
    /* Attributes alone are a copy onto itself. */
    struct stat st = {.st_mode = 0600};
    struct stage_attr a;
    struct err err = {0};
    uint64_t ino = t_lookup(&other, t_lookup(&other, STAGE_ROOT, "d"), "moved");
    cr_expect_eq(stage_setattr(other.s, &waits, ino, &st, STAGE_SET_MODE, &a, &err), 0, "%s",
                 err.msg);
    expect_sum(&b, "d/moved", data, len);
    cr_expect_eq(parts_sent(&b), parts);
    bench_stop(&other);
    free(data);
    bench_stop(&b);
}

Test(parts, of_what_is_gone_are_given_up)
{
    struct bench b;
    begin(&b);
    size_t len = 20 * MIB;
    unsigned char *data = pattern(len, 4);
    uint64_t fh, ino = t_create(&b, STAGE_ROOT, "big", &fh);
    put(&b, fh, 0, data, len);
    until(&b, "/_count/PART", 1);
    t_unlink(&b, STAGE_ROOT, "big");
    t_close(&b, fh);
    stage_forget(b.s, ino, 1);
    t_settle(&b);
    cr_expect_eq(ask_number(&b, "/_uploads"), 0);
    cr_expect_eq(ask_number(&b, "/_objects"), 0);
    /* Renamed in the middle: the upload was for another key. */
    t_create(&b, STAGE_ROOT, "one", &fh);
    put(&b, fh, 0, data, len);
    until(&b, "/_count/PART", 3);
    t_rename(&b, STAGE_ROOT, "one", STAGE_ROOT, "two");
    t_close(&b, fh);
    expect_sum(&b, "two", data, len);
    t_settle(&b);
    cr_expect_eq(ask_number(&b, "/_uploads"), 0);
    cr_expect_eq(ask_number(&b, "/_objects"), 1);
    free(data);
    bench_stop(&b);
}

Test(parts, a_large_file_is_read_back_in_pieces)
{
    struct bench b, other;
    begin(&b);
    size_t len = 21 * MIB + 77;
    unsigned char *data = pattern(len, 5), *got = xmalloc(MIB);
    uint64_t fh;
    t_create(&b, STAGE_ROOT, "big", &fh);
    put(&b, fh, 0, data, len);
    t_close(&b, fh);
    bench_other(&other, &b);
    bench_open(&other, true);
    struct err err = {0};
    size_t n = 0;
    fh = t_open(&other, t_lookup(&other, STAGE_ROOT, "big"), O_RDWR);
    cr_expect_eq(stage_read(other.s, &hurries, fh, 9 * MIB, got, MIB, &n, &err), STAGE_WAIT);
    for (size_t off = 0; off < len; off += n) {
        cr_assert_eq(stage_read(other.s, &waits, fh, off, got, MIB, &n, &err), 0, "%s", err.msg);
        cr_assert(n && memcmp(got, data + off, n) == 0, "at %zu", off);
    }
    cr_expect_eq(stage_read(other.s, &hurries, fh, 9 * MIB, got, MIB, &n, &err), 0);
    t_close(&other, fh);
    bench_stop(&other);
    /* A third one changes the middle of it and fetches no more than it must. */
    bench_other(&other, &b);
    bench_open(&other, true);
    memset(data + 12 * MIB - 2, 'z', 4);
    fh = t_open(&other, t_lookup(&other, STAGE_ROOT, "big"), O_RDWR);
    put(&other, fh, 12 * MIB - 2, data + 12 * MIB - 2, 4);
    t_close(&other, fh);
    expect_sum(&b, "big", data, len);
    cr_expect_leq(counter_get(&stage_counts(other.s)->fetched_bytes), 10 * MIB);
    bench_stop(&other);
    free(data);
    free(got);
    bench_stop(&b);
}

struct reader {
    struct bench *b;
    uint64_t fh;
};

static void *read_the_first(void *arg)
{
    const struct reader *r = arg;
    cleanup_free unsigned char *got = xmalloc(MIB);
    struct err err = {0};
    size_t n = 0;
    cr_expect_eq(stage_read(r->b->s, &waits, r->fh, 0, got, MIB, &n, &err), 0, "%s", err.msg);
    return NULL;
}

/* What is fetched comes to nothing, for the object moved on; one of its blocks was written while it
 * was under way, and the next try leaves that alone. */
Test(parts, written_while_they_are_fetched)
{
    struct bench b, other;
    begin(&b);
    size_t len = 4 * MIB;
    unsigned char *data = pattern(len, 9);
    uint64_t fh;
    t_create(&b, STAGE_ROOT, "f", &fh);
    put(&b, fh, 0, data, len);
    t_close(&b, fh);
    bench_other(&other, &b);
    other.conf.commit = COMMIT_BACKGROUND;
    bench_open(&other, true);
    /* Not O_RDWR, at which the first block comes. */
    struct reader r = {&other, t_open(&other, t_lookup(&other, STAGE_ROOT, "f"), O_WRONLY)};
    pthread_t thread;
    ask_number(&b, "/_set?park=1");
    cr_assert_eq(pthread_create(&thread, NULL, read_the_first, &r), 0);
    until(&b, "/_count/parked", 1);
    ask_number(&b, "/_set?park=0");
    t_rename(&other, STAGE_ROOT, "f", STAGE_ROOT, "g");
    t_settle(&other);
    memset(data + MIB, 'z', MIB);
    put(&other, r.fh, MIB, data + MIB, MIB);
    ask_number(&b, "/_set?free=1");
    pthread_join(thread, NULL);
    t_close(&other, r.fh);
    t_settle(&other);
    expect_sum(&b, "g", data, len);
    bench_stop(&other);
    free(data);
    bench_stop(&b);
}

/* Where the stage is full, what comes is kept by nobody; and nobody waits for it but its reader. */
Test(parts, read_past_a_full_stage)
{
    struct bench b, other;
    begin(&b);
    size_t n = 0;
    unsigned char *data = pattern(4 * MIB, 9), *got = xmalloc(MIB);
    struct err err = {0};
    uint64_t fh;
    t_create(&b, STAGE_ROOT, "f", &fh);
    put(&b, fh, 0, data, 4 * MIB);
    t_close(&b, fh);
    bench_other(&other, &b);
    other.conf.limit = 1 << 18;
    bench_open(&other, true);
    struct reader r = {&other, t_open(&other, t_lookup(&other, STAGE_ROOT, "f"), O_RDONLY)};
    cr_assert_eq(stage_read(other.s, &waits, r.fh, 0, got, MIB, &n, &err), 0, "%s", err.msg);
    cr_expect(n == MIB && memcmp(got, data, n) == 0);
    pthread_t thread;
    ask_number(&b, "/_set?park=1");
    cr_assert_eq(pthread_create(&thread, NULL, read_the_first, &r), 0);
    until(&b, "/_count/parked", 1); /* what is to be kept, and then what can't be */
    ask_number(&b, "/_set?free=1");
    until(&b, "/_count/parked", 2);
    cr_expect_eq(stage_read(other.s, &hurries, r.fh, 0, got, MIB, &n, &err), STAGE_WAIT);
    ask_number(&b, "/_set?park=0&free=1000"); /* had it waited, this would not have been reached */
    pthread_join(thread, NULL);
    t_close(&other, r.fh);
    bench_stop(&other);
    free(got);
    free(data);
    bench_stop(&b);
}

static void *read_of_two(void *arg)
{
    const struct reader *r = arg;
    cleanup_free unsigned char *got = xmalloc(MIB);
    struct err err = {0};
    size_t n = 0;
    cr_expect_eq(stage_read(r->b->s, &waits, r->fh, 6 * MIB, got, MIB, &n, &err), -1);
    cr_expect_eq(err_errno(&err), ESTALE, "%s", err.msg);
    return NULL;
}

/* Who has had bytes of a file gets none of the one in its place, though somebody else has opened
 * that while he waited. */
Test(parts, of_a_file_in_the_place_of_another)
{
    struct bench b, other;
    begin(&b);
    size_t len = 8 * MIB, n = 0;
    unsigned char *data = pattern(len, 9), *got = xmalloc(MIB);
    struct err err = {0};
    uint64_t fh;
    t_create(&b, STAGE_ROOT, "f", &fh);
    put(&b, fh, 0, data, len);
    t_close(&b, fh);
    bench_other(&other, &b);
    other.conf.refresh_ns = STAGE_EACH_LOOK;
    bench_open(&other, true);
    struct reader r = {&other, t_open(&other, t_lookup(&other, STAGE_ROOT, "f"), O_RDONLY)};
    cr_assert_eq(stage_read(other.s, &waits, r.fh, 0, got, MIB, &n, &err), 0, "%s", err.msg);
    pthread_t thread;
    ask_number(&b, "/_set?park=1");
    cr_assert_eq(pthread_create(&thread, NULL, read_of_two, &r), 0);
    until(&b, "/_count/parked", 1);
    ask_number(&b, "/_set?park=0");
    memset(data, 'z', len);
    fh = t_open(&b, t_lookup(&b, STAGE_ROOT, "f"), O_RDWR);
    put(&b, fh, 0, data, len);
    t_close(&b, fh);
    uint64_t new = t_open(&other, t_lookup(&other, STAGE_ROOT, "f"), O_RDONLY);
    cr_assert_eq(stage_read(other.s, &waits, new, 0, got, MIB, &n, &err), 0, "%s", err.msg);
    cr_expect(n == MIB && memcmp(got, data, n) == 0);
    ask_number(&b, "/_set?free=1");
    pthread_join(thread, NULL);
    t_close(&other, new);
    cr_expect_eq(stage_release(other.s, &waits, r.fh, &err), 0);
    bench_stop(&other);
    free(got);
    free(data);
    bench_stop(&b);
}

struct many_readers {
    struct bench *b;
    uint64_t fh;
    const unsigned char *data;
    size_t len;
    pthread_barrier_t *together;
};

static void *read_it_all(void *arg)
{
    const struct many_readers *m = arg;
    cleanup_free unsigned char *got = xmalloc(MIB);
    struct err err = {0};
    size_t n = 0;
    pthread_barrier_wait(m->together);
    for (size_t off = 0; off < m->len; off += n) {
        bool from_store;
        cr_assert_eq(stage_await(m->b->s, &waits, m->fh, off, MIB, &from_store, &err), 0, "%s",
                     err.msg);
        cr_assert_eq(stage_read(m->b->s, &waits, m->fh, off, got, MIB, &n, &err), 0, "%s", err.msg);
        cr_assert(n && memcmp(got, m->data + off, n) == 0, "at %zu", off);
    }
    return NULL;
}

/* Memory for one at a time: they wait for each other, and all get their bytes; so does an upload
 * whose absent parts must come first. */
Test(parts, come_to_many_readers_one_after_another)
{
    enum { FILES = 6 };
    struct bench b, other;
    begin(&b);
    size_t len = 9 * MIB + 1;
    unsigned char *data = pattern(len, 7);
    struct many_readers readers[FILES];
    pthread_t threads[FILES];
    pthread_barrier_t together;
    char name[16];
    for (int i = 0; i < FILES; i++) {
        uint64_t fh;
        snprintf(name, sizeof name, "f%d", i);
        t_create(&b, STAGE_ROOT, name, &fh);
        put(&b, fh, 0, data, len);
        t_close(&b, fh);
    }
    bench_other(&other, &b);
    other.conf.read_bytes = 1;
    bench_open(&other, true);
    pthread_barrier_init(&together, NULL, FILES);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "f%d", i);
        readers[i] =
            (struct many_readers){.b = &other, .data = data, .len = len, .together = &together};
        readers[i].fh = t_open(&other, t_lookup(&other, STAGE_ROOT, name), O_RDWR);
        pthread_create(&threads[i], NULL, read_it_all, &readers[i]);
    }
    for (int i = 0; i < FILES; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&together);
    cr_expect_eq(counter_get(&stage_counts(other.s)->fetched_bytes), FILES * len);
    cr_expect_eq(counter_get(&stage_counts(other.s)->read_bytes), FILES * len);
    bench_stop(&other);
    bench_other(&other, &b);
    other.conf.read_bytes = 1;
    bench_open(&other, true);
    data[3] ^= 255;
    uint64_t fh = t_open(&other, t_lookup(&other, STAGE_ROOT, "f0"), O_RDWR);
    put(&other, fh, 3, data + 3, 1);
    t_close(&other, fh);
    expect_sum(&b, "f0", data, len);
    bench_stop(&other);
    free(data);
    bench_stop(&b);
}

/* --- an upload that ended, and nobody heard so ------------------------------------------------ */

#define LARGE (41u * MIB + 3)

/* Another stage of the same store, which has nothing of it here. */
static void another_folder(struct bench *b, const char *name)
{
    snprintf(b->dir, sizeof b->dir, "%s/%s", b->root, name);
    cr_assert_eq(mkdir(b->dir, 0700), 0);
}

static void change_a_little(struct bench *b, unsigned char *data)
{
    data[20 * MIB] ^= 255;
    uint64_t fh = t_open(b, t_lookup(b, STAGE_ROOT, "big"), O_RDWR);
    put(b, fh, 20 * MIB, data + 20 * MIB, 1);
    t_close(b, fh);
}

/* Of a part that was copied, and did not come here before. */
static void expect_read(struct bench *b, const unsigned char *data, size_t off)
{
    unsigned char got[4096];
    struct err err = {0};
    size_t n = 0;
    uint64_t fh = t_open(b, t_lookup(b, STAGE_ROOT, "big"), O_RDONLY);
    cr_assert_eq(stage_read(b->s, &waits, fh, off, got, sizeof got, &n, &err), 0, "%s", err.msg);
    cr_expect(n == sizeof got && memcmp(got, data + off, n) == 0, "wrong bytes at %zu", off);
    t_close(b, fh);
}

static void stored_and_elsewhere(struct bench *b, unsigned char *data)
{
    uint64_t fh;
    bench_open(b, true);
    t_create(b, STAGE_ROOT, "big", &fh);
    put(b, fh, 0, data, LARGE);
    t_close(b, fh);
    bench_close(b);
    another_folder(b, "second");
}

static void expect_settled(struct bench *b, const unsigned char *data)
{
    t_settle(b);
    expect_sum(b, "big", data, LARGE);
    cr_expect_eq(ask_number(b, "/_uploads"), 0);
    cr_expect_eq(ask_number(b, "/_objects"), 1);
}

/* ETags that are made of the parts' MD5s, or that say nothing of the bytes. */
enum { TELLING, ODD };

static void killed_at_its_end(int etags, bool flipped)
{
    struct bench b;
    bench_start_bare(&b, true);
    unsigned char *data = pattern(LARGE, 8);
    b.conf.grace_ns = 1;
    pid_t pid = fork();
    if (pid == 0) {
        bench_connect(&b);
        ask_number(&b, etags == ODD ? "/_set?odd=1" : "/_set?odd=0");
        stored_and_elsewhere(&b, data);
        bench_open(&b, true);
        ask_number(&b, "/_set?silent=1");
        change_a_little(&b, data);
        _exit(0);
    }
    until(&b, "/_count/END", 2);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    ask_number(&b, "/_set?silent=0");
    if (flipped)
        ask_number(&b, "/_flip/out/big");
    data[20 * MIB] ^= 255;
    snprintf(b.dir, sizeof b.dir, "%s/second", b.root);
    bench_connect(&b);
    bench_open(&b, false);
    if (flipped) {
        struct err err = {0};
        cr_expect_neq(stage_settle(b.s, clock_mono_ns() + 60 * NS_PER_S, &err), 0);
        cr_expect_eq(err_errno(&err), ESTALE, "%s", err.msg);
    } else {
        expect_read(&b, data, 33 * MIB);
        expect_settled(&b, data);
        cr_expect_leq(counter_get(&stage_counts(b.s)->fetched_bytes), 4 * MIB);
    }
    free(data);
    bench_stop(&b);
}

Test(parts, copied_by_a_life_that_was_killed_at_its_end)
{
    killed_at_its_end(TELLING, false);
}

Test(parts, copied_by_a_life_that_was_killed_at_its_end_in_an_odd_store)
{
    killed_at_its_end(ODD, false);
}

/* Another program changed it since, and kept what it does not know: that is not ours. */
Test(parts, copied_by_a_life_that_was_killed_and_changed_by_another_writer)
{
    killed_at_its_end(ODD, true);
}

static void answer_at_the_end_is_lost(int etags)
{
    struct bench b;
    bench_start(&b, true);
    unsigned char *data = pattern(LARGE, 9);
    ask_number(&b, etags == ODD ? "/_set?odd=1" : "/_set?odd=0");
    stored_and_elsewhere(&b, data);
    bench_open(&b, true);
    ask_number(&b, "/_set?lost=1");
    change_a_little(&b, data);
    expect_settled(&b, data);
    free(data);
    bench_stop(&b);
}

Test(parts, copied_and_the_answer_at_the_end_is_lost)
{
    answer_at_the_end_is_lost(TELLING);
}

Test(parts, copied_and_the_answer_at_the_end_is_lost_in_an_odd_store)
{
    answer_at_the_end_is_lost(ODD);
}

static void read_while_the_answer_is_awaited(int etags)
{
    struct bench b;
    bench_start(&b, true);
    unsigned char *data = pattern(LARGE, 10);
    ask_number(&b, etags == ODD ? "/_set?odd=1" : "/_set?odd=0");
    stored_and_elsewhere(&b, data);
    b.conf.commit = COMMIT_BACKGROUND;
    bench_open(&b, true);
    ask_number(&b, "/_set?silent=1");
    change_a_little(&b, data);
    until(&b, "/_count/END", 2);
    expect_read(&b, data, 33 * MIB);
    ask_number(&b, "/_set?silent=0");
    expect_settled(&b, data);
    free(data);
    bench_stop(&b);
}

Test(parts, copied_are_read_while_the_answer_is_awaited)
{
    read_while_the_answer_is_awaited(TELLING);
}

Test(parts, copied_are_read_while_the_answer_is_awaited_in_an_odd_store)
{
    read_while_the_answer_is_awaited(ODD);
}

/* Another writer's object in its place is not taken for ours: nothing is mixed with it. */
Test(parts, copied_from_an_object_that_another_writer_replaces)
{
    struct bench b;
    bench_start(&b, true);
    unsigned char *data = pattern(LARGE, 11);
    stored_and_elsewhere(&b, data);
    b.conf.commit = COMMIT_BACKGROUND;
    bench_open(&b, true);
    uint64_t fh = t_open(&b, t_lookup(&b, STAGE_ROOT, "big"), O_RDWR);
    put(&b, fh, 20 * MIB, "x", 1);
    ask_number(&b, "/_put/out/big?text=other");
    t_close(&b, fh);
    struct err err = {0};
    cr_expect_neq(stage_settle(b.s, clock_mono_ns() + 60 * NS_PER_S, &err), 0);
    cr_expect_eq(err_errno(&err), ESTALE, "%s", err.msg);
    expect_stored(&b, "big", "other");
    free(data);
    bench_stop(&b);
}

/* Nor is the upload taken for gone then, to be begun anew for ever. */
Test(parts, copied_from_an_object_that_another_writer_deletes)
{
    struct bench b;
    bench_start(&b, true);
    unsigned char *data = pattern(LARGE, 12);
    stored_and_elsewhere(&b, data);
    b.conf.commit = COMMIT_BACKGROUND;
    bench_open(&b, true);
    uint64_t fh = t_open(&b, t_lookup(&b, STAGE_ROOT, "big"), O_RDWR);
    put(&b, fh, 16 * MIB, data, 8 * MIB); /* a whole part: its own bytes are asked for by nobody */
    ask_number(&b, "/_delete/out/big");
    t_close(&b, fh);
    struct err err = {0};
    cr_expect_neq(stage_settle(b.s, clock_mono_ns() + 20 * NS_PER_S, &err), 0);
    cr_expect_eq(err_errno(&err), ESTALE, "%s", err.msg);
    cr_expect_leq(ask_number(&b, "/_uploads"), 1);
    cr_expect_eq(ask_number(&b, "/_objects"), 0);
    free(data);
    bench_stop(&b);
}

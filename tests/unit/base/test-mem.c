/* The bounded pool and byte strings. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "buf.h"
#include "mem.h"

Test(bytes, grows_and_stays_nul_ended)
{
    struct bytes b = {0};
    bytes_add_str(&b, "one");
    bytes_add_char(&b, ' ');
    bytes_addf(&b, "%d", 2);
    cr_expect_str_eq(b.data, "one 2");
    cr_expect_eq(b.len, 5);
    bytes_clear(&b);
    cr_expect_str_eq(b.data, "");
    for (int i = 0; i < 10000; i++)
        bytes_add(&b, "ab", 2);
    cr_expect_eq(b.len, 20000);
    cr_expect_eq(strlen(b.data), 20000);
    bytes_release(&b);
    cr_expect_null(b.data);
    bytes_add(&b, NULL, 0);
    cr_expect_str_eq(b.data, "");
    bytes_release(&b);
}

Test(bytes, take_never_gives_null)
{
    struct bytes b = {0};
    char *empty = bytes_take(&b);
    cr_expect_str_eq(empty, "");
    free(empty);
    bytes_add_str(&b, "x");
    char *x = bytes_take(&b);
    cr_expect_str_eq(x, "x");
    cr_expect_null(b.data);
    free(x);
}

Test(pool, capacity_wastes_at_most_an_eighth)
{
    struct pool *p = pool_new(1ull << 36);
    for (size_t n = 512; n < 64u << 20; n += n / 7 + 1) {
        struct buf *b = pool_get(p, n);
        cr_assert_not_null(b);
        cr_assert(b->cap >= n && (double)b->cap <= (double)n * 1.125 + 1, "%zu of %zu", n, b->cap);
        cr_assert_eq(b->len, 0);
        cr_assert_eq(pool_used(p), b->cap);
        b->data[0] = 1;
        b->data[b->cap - 1] = 1;
        buf_unref(b);
    }
    cr_assert_eq(pool_used(p), 0);
    pool_free(p);
}

/* Of what was mapped to find such a place nothing stays. */
Test(pool, large_buffers_begin_where_a_huge_page_does)
{
    const size_t huge = 2u << 20;
    unsigned long before = 0, after = 0;
    struct pool *p = pool_new(64u << 20);
    for (int round = 0; round < 2; round++) {
        FILE *f = fopen("/proc/self/statm", "re");
        cr_assert(f && fscanf(f, "%lu", round ? &after : &before) == 1);
        fclose(f);
        for (size_t i = 0; i < 20 && !round; i++) {
            struct buf *b = pool_get(p, huge + i * 100000);
            cr_assert_not_null(b);
            cr_expect_eq((uintptr_t)b->data % huge, 0);
            memset(b->data, 1, b->cap);
            buf_unref(b);
            pool_trim(p);
        }
    }
    cr_expect_lt(after * 4096, before * 4096 + huge, "%lu pages, %lu before", after, before);
    pool_free(p);
}

Test(pool, limit_is_a_bound)
{
    struct pool *p = pool_new(1 << 20);
    struct buf *held[64];
    size_t n = 0, sum = 0;
    while ((held[n] = pool_get(p, 100000))) {
        sum += held[n]->cap;
        n++;
    }
    cr_expect_eq(n, (1 << 20) / held[0]->cap);
    cr_expect_eq(pool_used(p), sum);
    cr_expect_leq(sum, 1 << 20);
    cr_expect_null(pool_get(p, 2 << 20));
    cr_expect_null(pool_get(p, SIZE_MAX));
    for (size_t i = 0; i < n; i++)
        buf_unref(held[i]);
    struct buf *all = pool_get(p, 1 << 20); /* the idle ones of another class make room */
    cr_expect_not_null(all);
    buf_unref(all);
    pool_free(p);
}

Test(pool, released_memory_is_reused)
{
    struct pool *p = pool_new(1 << 20);
    struct buf *a = pool_get(p, 115000);
    void *data = a->data;
    buf_unref(a);
    struct buf *b = pool_get(p, 122000);
    cr_expect_eq(b->data, data);
    buf_unref(b);
    pool_trim(p);
    cr_expect_eq(pool_used(p), 0);
    pool_free(p);
}

Test(pool, a_reference_keeps_the_charge)
{
    struct pool *p = pool_new(1 << 20);
    struct buf *a = buf_ref(pool_get(p, 4096));
    buf_unref(a);
    cr_expect_eq(pool_used(p), 4096);
    buf_unref(a);
    cr_expect_eq(pool_used(p), 0);
    buf_unref(NULL);
    pool_free(p);
}

static void count_call(void *arg)
{
    ++*(int *)arg;
}

Test(pool, on_space_is_called_after_a_refusal_only)
{
    struct pool *p = pool_new(8192);
    int calls = 0;
    pool_on_space(p, count_call, &calls);
    struct buf *a = pool_get(p, 4096), *b = pool_get(p, 4096);
    buf_unref(b);
    cr_expect_eq(calls, 0);
    b = pool_get(p, 4096);
    cr_expect_null(pool_get(p, 4096));
    buf_unref(a);
    cr_expect_eq(calls, 1);
    buf_unref(b);
    cr_expect_eq(calls, 1, "one call for one refusal");
    cr_expect_null(pool_get(p, 16384));
    pool_set_limit(p, 16384);
    cr_expect_eq(calls, 2, "a raised limit is space too");
    buf_unref(pool_get(p, 16384));
    pool_free(p);
}

Test(pool, a_lowered_limit_holds_for_what_comes)
{
    struct pool *p = pool_new(1 << 20);
    struct buf *a = pool_get(p, 512 << 10), *b = pool_get(p, 256 << 10);
    buf_unref(b);
    pool_set_limit(p, 128 << 10);
    cr_expect_eq(pool_limit(p), 128 << 10);
    cr_expect_null(pool_get(p, 1));
    buf_unref(a);
    a = pool_get(p, 128 << 10);
    cr_expect_not_null(a);
    buf_unref(a);
    pool_free(p);
}

/* From here on the system refuses this process what is larger than `more`. */
static void starve(rlim_t more)
{
    FILE *f = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;
    cr_assert(f && fscanf(f, "%lu", &pages) == 1);
    fclose(f);
    rlim_t most = (rlim_t)pages * 4096 + more;
    cr_assert_eq(setrlimit(RLIMIT_AS, &(struct rlimit){most, most}), 0);
}

Test(pool, no_memory_is_told_from_no_room)
{
    struct pool *p = pool_new(4ull << 30);
    int calls = 0;
    pool_on_space(p, count_call, &calls);
    starve(64 << 20);
    errno = 0;
    cr_expect_null(pool_get(p, 1 << 30));
    cr_expect_eq(errno, ENOMEM, "nothing is out: nobody would call");
    cr_expect_eq(pool_used(p), 0);

    struct buf *held = pool_get(p, 1 << 20);
    cr_expect_null(pool_get(p, 1 << 30));
    cr_expect_eq(errno, EAGAIN, "what is out may be what is missing");
    buf_unref(held);
    cr_expect_eq(calls, 1);
    cr_expect_null(pool_get(p, 8ull << 30));
    cr_expect_eq(errno, EAGAIN, "the limit says so");
    pool_free(p);
}

struct other { /* asks while a buffer is made that can't be had */
    struct pool *pool;
    pthread_t thread;
    atomic_bool ended;
    int refusal;
};
static struct other *other; /* begins with the next small buffer */

static void *ask(void *arg)
{
    struct other *o = arg;
    struct buf *b = pool_get(o->pool, 4096);
    o->refusal = b ? 0 : errno;
    buf_unref(b);
    atomic_store(&o->ended, true);
    return NULL;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    void *(*real)(size_t, size_t); /* not kept: several threads come here */
    struct other *o = other;
    *(void **)&real = dlsym(RTLD_NEXT, "aligned_alloc");
    if (!o)
        return real(alignment, size);
    other = NULL;
    cr_assert_eq(pthread_create(&o->thread, NULL, ask, o), 0);
    for (int i = 0; i < 100 && !atomic_load(&o->ended); i++)
        usleep(1000);
    return NULL;
}

Test(pool, nobody_waits_for_a_buffer_that_is_never_made)
{
    struct pool *p = pool_new(4096);
    struct other o = {.pool = p};
    other = &o;
    struct buf *b = pool_get(p, 4096);
    if (other) {
        other = NULL;
        buf_unref(b);
        pool_free(p);
        cr_skip_test("a checker's allocator was asked in place of ours");
    }
    cr_expect_null(b);
    cr_expect_eq(errno, ENOMEM);
    pthread_join(o.thread, NULL);
    cr_expect_eq(o.refusal, 0, "%s", strerror(o.refusal));
    pool_free(p);
}

Test(pool, what_is_idle_goes_back_before_a_refusal)
{
    struct pool *p = pool_new(4ull << 30);
    starve(64 << 20);
    buf_unref(pool_get(p, 40 << 20));
    struct buf *b = pool_get(p, 48 << 20);
    cr_expect_not_null(b);
    buf_unref(b);
    pool_free(p);
}

Test(pool, freeing_with_a_buffer_out_is_a_bug, .signal = SIGABRT)
{
    struct pool *p = pool_new(1 << 20);
    pool_get(p, 10);
    pool_free(p);
}

#define ROUNDS 20000

static void *churn(void *arg)
{
    struct pool *p = arg;
    unsigned seed = (unsigned)(uintptr_t)&seed;
    for (int i = 0; i < ROUNDS; i++) {
        seed = seed * 1103515245 + 12345;
        struct buf *b = pool_get(p, 1000 + seed % 200000);
        if (!b)
            continue;
        b->data[0] = (unsigned char)i;
        if (pool_used(p) > 1 << 20)
            return arg;
        buf_unref(b);
    }
    return NULL;
}

Test(pool, threads_share_it)
{
    struct pool *p = pool_new(1 << 20);
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, churn, p);
    for (int i = 0; i < 4; i++) {
        void *why;
        pthread_join(t[i], &why);
        cr_expect_null(why);
    }
    cr_expect_eq(pool_used(p), 0);
    pool_free(p);
}

/* A read that was asked of a machine and of the store at once: what it comes to when both fail. The
 * asks are made by hand, so that either side fails when the test says so. */
#include <criterion/criterion.h>
#include <sched.h>

#include "peer-internal.h"

#define ROUNDS 1000

static const struct err machines = {.class = ERR_TRANSIENT, .msg = "the machine does not answer"};

static int store_read(struct source *s, const struct piece *p, struct view *ret,
                      struct source_wait *wait, struct err *err)
{
    (void)s, (void)p, (void)ret, (void)wait;
    return err_set(err, ERR_STALE, "the object was replaced");
}

static const struct source_ops store_ops = {.name = "made-up", .read = store_read};
static struct source store = {.ops = &store_ops};
static struct peer_layer layer = {.source.inner = &store};
static struct pool *pool;

struct reader {
    struct source_wait wait; /* first */
    int answers;
    enum err_class class;
};

static void on_done(struct source_wait *wait, struct view *view, const struct err *err)
{
    struct reader *r = (struct reader *)wait;
    cr_assert_null(view);
    r->answers++;
    r->class = err->class;
}

static struct ask *new_ask(struct reader *r)
{
    struct ask *a = xcalloc(1, sizeof *a);
    *r = (struct reader){.wait.done = on_done};
    *a = (struct ask){.layer = &layer,
                      .wait = &r->wait,
                      .piece.into = pool_get(pool, 1),
                      .hedged = true,
                      .refs = 2};
    ACQUIRE(&layer.lock);
    layer_enter(&layer);
    return a;
}

static void begin(void)
{
    lock_init(&layer.copy, RANK_FETCH_QUEUE + 1, "copy");
    lock_init(&layer.lock, RANK_FETCH_QUEUE, "peers");
    cond_init(&layer.idle);
    pool = pool_new(1u << 20);
}

static void finish(void)
{
    cr_expect_eq(layer.under_way, 0);
    pool_free(pool);
    cond_destroy(&layer.idle);
    lock_destroy(&layer.lock);
    lock_destroy(&layer.copy);
}

TestSuite(peer_hedge, .init = begin, .fini = finish);

static struct ask *_Atomic at_hand;

/* Not long: other processes want this core, too. */
static void spin(int *spun)
{
    if (++*spun > 1000)
        sched_yield();
}

static void *machine_main(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct ask *a;
        for (int spun = 0; !(a = atomic_exchange(&at_hand, NULL));)
            spin(&spun);
        ask_next(a, &machines);
    }
    return arg;
}

static atomic_bool over;

/* Comes between whoever wants the lock twice. */
static void *other_main(void *arg)
{
    while (!atomic_load(&over)) {
        ACQUIRE(&layer.lock);
        for (volatile int held = 300; held; held--)
            ;
    }
    return arg;
}

static size_t under_way(void)
{
    ACQUIRE(&layer.lock);
    return layer.under_way;
}

Test(peer_hedge, whose_sides_fail_at_one_time_is_answered)
{
    pthread_t machine, other;
    int unanswered = 0;
    cr_assert_eq(pthread_create(&machine, NULL, machine_main, NULL), 0);
    cr_assert_eq(pthread_create(&other, NULL, other_main, NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        struct reader r;
        struct ask *a = new_ask(&r);
        atomic_store(&at_hand, a);
        for (int spun = 0; atomic_load(&at_hand);)
            spin(&spun);
        ask_hedge(a);
        for (int spun = 0; under_way();)
            spin(&spun);
        unanswered += r.answers != 1;
    }
    atomic_store(&over, true);
    pthread_join(machine, NULL);
    pthread_join(other, NULL);
    cr_expect_eq(unanswered, 0, "%d of %d readers wait for ever", unanswered, ROUNDS);
}

Test(peer_hedge, both_of_whose_sides_fail_tells_what_the_store_said)
{
    for (int machine_first = 0; machine_first < 2; machine_first++) {
        struct reader r;
        struct ask *a = new_ask(&r);
        if (machine_first)
            ask_next(a, &machines);
        else
            ask_hedge(a);
        cr_expect_eq(r.answers, 0);
        if (machine_first)
            ask_hedge(a);
        else
            ask_next(a, &machines);
        cr_expect_eq(r.answers, 1);
        cr_expect_eq(r.class, ERR_STALE);
    }
}

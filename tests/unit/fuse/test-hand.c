#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "hand-internal.h"
#include "keeper.h"
#include "suspects.h"

struct read_request {
    struct wire_in_header h;
    struct wire_read_in in;
};

static struct read_request read_of(uint64_t unique, uint64_t nodeid, uint64_t offset)
{
    return (struct read_request){.h = {.len = sizeof(struct read_request),
                                       .opcode = WIRE_READ,
                                       .unique = unique,
                                       .nodeid = nodeid},
                                 .in = {.offset = offset, .size = 4096}};
}

static struct keeper_state *new_state(void)
{
    size_t bytes = keeper_state_bytes(FRONTEND_DESKS, FRONTEND_DESK_BYTES);
    struct keeper_state *s =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    keeper_state_init(s, FRONTEND_DESKS, FRONTEND_DESK_BYTES);
    return s;
}

Test(hand, a_parked_request_outlives_the_life)
{
    struct keeper_state *state = new_state();
    struct read_request r = read_of(7, 42, 4096);
    struct hand h = {0};

    cr_assert_eq(hand_open(&h, state, NULL), 0);
    uint32_t slot = hand_park(&h, &r.h);
    cr_assert_eq(memcmp(hand_slot(&h, slot), &r, sizeof(r)), 0);
    hand_close(&h);
    /* The next life finds it, and gives its slot to nobody else. */
    cr_assert_eq(hand_open(&h, state, NULL), 0);
    cr_assert(hand_holds(hand_slot(&h, slot)));
    for (uint32_t i = 0; i < KEEPER_SLOTS - 1; i++)
        cr_assert_neq(hand_park(&h, &r.h), slot);
    hand_clear_all(&h);
    for (uint32_t i = 0; i < KEEPER_SLOTS; i++)
        cr_assert(!hand_holds(hand_slot(&h, i)));
    hand_close(&h);
}

Test(hand, a_long_request_keeps_its_length)
{
    char long_one[2048] = {0};
    struct wire_in_header *r = (void *)long_one;
    struct hand h = {0};

    r->len = sizeof(long_one);
    memset(r + 1, 'x', sizeof(long_one) - sizeof(*r));
    cr_assert_eq(hand_open(&h, NULL, NULL), 0);
    uint32_t slot = hand_park(&h, r);
    cr_assert_eq(hand_slot(&h, slot)->len, sizeof(long_one));
    cr_assert_eq(memcmp(hand_slot(&h, slot), r, KEEPER_SLOT_BYTES), 0);
    cr_assert_eq(hand_slot(&h, slot + 1)->len, 0);
    hand_close(&h);
}

Test(hand, small_desks_are_refused)
{
    size_t bytes = keeper_state_bytes(2, 4096);
    struct keeper_state *s =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct hand h = {0};
    struct err err = {0};

    keeper_state_init(s, 2, 4096);
    cr_assert_eq(hand_open(&h, s, &err), -1);
    cr_assert_str_eq(err.msg, "the keeper's state has 2 desks of 4096 bytes, not of 16384");
    hand_close(&h);
}

struct giver {
    struct hand *h;
    uint32_t slot;
};

static void *give_later(void *arg)
{
    struct giver *g = arg;

    while (!atomic_load(&g->h->waiting))
        sched_yield();
    hand_unpark(g->h, g->slot);
    return NULL;
}

Test(hand, who_finds_no_slot_waits_for_one)
{
    struct read_request r = read_of(1, 2, 3);
    struct hand h = {0};
    pthread_t t;

    cr_assert_eq(hand_open(&h, NULL, NULL), 0);
    for (uint32_t i = 0; i < KEEPER_SLOTS; i++)
        hand_park(&h, &r.h);
    struct giver g = {&h, 99};
    pthread_create(&t, NULL, give_later, &g);
    cr_assert_eq(hand_park(&h, &r.h), 99);
    pthread_join(t, NULL);
    hand_close(&h);
}

static void *park_and_unpark(void *arg)
{
    struct hand *h = arg;

    for (uint64_t i = 0; i < 20000; i++) {
        struct read_request r = read_of(i + 1, (uint64_t)pthread_self(), i);
        uint32_t slot = hand_park(h, &r.h);

        if (memcmp(hand_slot(h, slot), &r, sizeof(r)) != 0)
            return h;
        hand_unpark(h, slot);
    }
    return NULL;
}

Test(hand, each_slot_has_one_owner)
{
    struct hand h = {0};
    pthread_t t[4];

    cr_assert_eq(hand_open(&h, NULL, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, park_and_unpark, &h);
    for (int i = 0; i < 4; i++) {
        void *wrong;

        pthread_join(t[i], &wrong);
        cr_assert_null(wrong);
    }
    cr_assert_leq(hand_top(&h), 4);
    hand_close(&h);
}

Test(suspects, what_kills_is_known_by_operation_inode_and_offset)
{
    struct keeper_part kept = {
        .suspects = {{.opcode = WIRE_READ, .deaths = 1, .nodeid = 5, .offset = 4096},
                     {.opcode = WIRE_OPEN, .deaths = 3, .nodeid = 5}}};
    struct read_request r = read_of(1, 5, 4096), other = read_of(1, 5, 0);
    struct wire_in_header open = {.len = sizeof(open), .opcode = WIRE_OPEN, .nodeid = 5};

    cr_assert_eq(suspects_find(&kept, (const void *)&r.h), &kept.suspects[0]);
    cr_assert_null(suspects_find(&kept, (const void *)&other.h));
    cr_assert_eq(suspects_find(&kept, (const void *)&open), &kept.suspects[1]);
    cr_assert(suspects_any(&kept));
    cr_assert(suspects_open(&kept));
    suspects_absolve_all(&kept);
    cr_assert_null(suspects_find(&kept, (const void *)&r.h));
    cr_assert_eq(suspects_find(&kept, (const void *)&open), &kept.suspects[1],
                 "a guilty one is not absolved");
    cr_assert(suspects_any(&kept));
    cr_assert(!suspects_open(&kept));
    suspects_absolve(&kept.suspects[1]);
    cr_assert(suspects_any(&kept));
    cr_assert_str_eq(suspect_op_name(WIRE_READ), "read");
    cr_assert_str_eq(suspect_op_name(4000), "other");
}

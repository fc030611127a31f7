#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "opens-internal.h"

static struct opens *new_opens(struct kept_opens *kept)
{
    struct opens *o = malloc(sizeof(*o));

    cr_assert_eq(opens_load(o, kept), 0);
    return o;
}

static struct kept_open an_open(uint64_t ino, uint32_t opens)
{
    return (struct kept_open){.ino = ino, .size = 10 * ino, .opens = opens, .way = WAY_DIRECT};
}

Test(opens, come_and_go)
{
    struct kept_opens *kept = calloc(1, sizeof(*kept));
    struct opens *o = new_opens(kept);
    struct kept_open a = an_open(1, 1), b = an_open(1 + OPENS_BUCKETS, 1);

    cr_assert_null(opens_find(o, 1));
    cr_assert(opens_change(o, 100, &a));
    cr_assert(opens_change(o, 101, &b)); /* of the same bucket */
    a.opens = 2;
    cr_assert(opens_change(o, 102, &a));
    cr_assert_eq(opens_find(o, 1)->opens, 2);
    cr_assert_eq(opens_find(o, b.ino)->size, b.size);
    a.opens = 0;
    cr_assert(opens_change(o, 103, &a));
    cr_assert_null(opens_find(o, 1));
    cr_assert(opens_find(o, b.ino));
    cr_assert(opens_counted(o, 100) && opens_counted(o, 103) && !opens_counted(o, 104));
    free(o);
    /* Another life. */
    o = new_opens(kept);
    cr_assert_null(opens_find(o, 1));
    cr_assert_eq(opens_find(o, b.ino)->way, WAY_DIRECT);
    cr_assert(opens_counted(o, 103));
    free(o);
    free(kept);
}

Test(opens, a_full_table_says_so)
{
    struct kept_opens *kept = calloc(1, sizeof(*kept));
    struct opens *o = new_opens(kept);
    struct kept_open more = an_open(OPENS_MAX + 1, 1), first = an_open(1, 0);

    for (uint64_t i = 1; i <= OPENS_MAX; i++) {
        struct kept_open e = an_open(i, 1);
        cr_assert(opens_change(o, i, &e));
    }
    cr_assert_null(opens_change(o, 99999, &more));
    cr_assert(!opens_counted(o, 99999));
    cr_assert(opens_change(o, 100000, &first));
    cr_assert(opens_change(o, 100001, &more));
    free(o);
    free(kept);
}

/* Every prefix of a change's stores, as a kill would leave it, ends as the change or as nothing. */
Test(opens, a_killed_change_is_finished_or_was_never_begun)
{
    struct kept_opens *kept = calloc(1, sizeof(*kept));
    struct opens *o = new_opens(kept);
    struct kept_open a = an_open(5, 3), to = an_open(5, 0);

    to.backing_id = 8;
    cr_assert(opens_change(o, 1, &a));
    uint32_t at = opens_at(o, opens_find(o, 5));
    kept->intent.at = at;
    kept->intent.unique = 2;
    kept->intent.to = to;
    kept->intent.closes = 8;
    cr_assert_eq(opens_load(o, kept), 0, "not armed: never begun");
    cr_assert_eq(opens_find(o, 5)->opens, 3);
    cr_assert(!opens_counted(o, 2));
    for (int done = 0; done < 3; done++) {
        kept->intent.armed = 1;
        if (done == 1)
            kept->entries[at] = to;
        cr_assert_eq(opens_load(o, kept), 8);
        cr_assert_null(opens_find(o, 5));
        cr_assert(opens_counted(o, 2));
        cr_assert_eq(kept->n_done, 2, "it is noted once");
        cr_assert_eq(kept->intent.armed, 0);
    }
    free(o);
    free(kept);
}

/* Of what changed, the kernel hears all: what could not be told is told later. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake-volume.h"
#include "frontend-internal.h"
#include "keeper.h"

static bool knows_served(struct frontend *f)
{
    struct catalog *now = volume_catalog(f->volume);
    bool same = !strcmp(keeper_text_get(f->known), catalog_info(now)->digest);

    catalog_unref(now);
    return same;
}

static void begin(struct frontend *f, struct kept *kept)
{
    char top[] = "/tmp/fuse-invalidate-XXXXXX", pack[64];

    cr_assert(mkdtemp(top));
    snprintf(pack, sizeof(pack), "%s/pack", top);
    *f = (struct frontend){.mode.notify = true, .kept = kept};
    lock_init(&f->telling, RANK_PUSH - 1, "fuse telling");
    f->volume = fake_volume_new(top, pack); /* empty */
    unlink(pack);
    rmdir(top);
    invalidate_begin(f);
    volume_on_switch(f->volume, invalidate_on_switch, f);
    cr_assert(knows_served(f));
}

static void end(struct frontend *f)
{
    fake_volume_free(f->volume);
    lock_destroy(&f->telling);
}

/* Its diff fails, as those to come do. */
static void switch_untold(struct frontend *f)
{
    fake_volume_fail_diffs(f->volume, true);
    fake_volume_add(f->volume, "a", "");
}

Test(invalidate, a_switch_is_told)
{
    struct kept kept = {0};
    struct frontend f;

    begin(&f, &kept);
    fake_volume_add(f.volume, "a", "");
    cr_expect(knows_served(&f));
    cr_expect_eq(counter_get(&kept.invalidated), 1);
    end(&f);
}

Test(invalidate, what_could_not_be_told_stays_untold)
{
    struct kept kept = {0};
    struct frontend f;

    begin(&f, &kept);
    switch_untold(&f);
    cr_expect_not(knows_served(&f));
    invalidate_untold(&f);
    cr_expect_not(knows_served(&f));
    fake_volume_fail_diffs(f.volume, false);
    invalidate_untold(&f);
    cr_expect(knows_served(&f));
    cr_expect_eq(counter_get(&kept.invalidated), 1);
    end(&f);
}

Test(invalidate, the_next_switch_tells_what_was_left)
{
    struct kept kept = {0};
    struct frontend f;

    begin(&f, &kept);
    switch_untold(&f);
    fake_volume_fail_diffs(f.volume, false);
    fake_volume_add(f.volume, "b", "");
    cr_expect(knows_served(&f));
    end(&f);
}

/*
 * Does it fit? Asked before a warmup's first byte. What was asked for by name must fit whole. Of a
 * node's share as much is brought as fits: the rest is unpinned, so that it never takes the place
 * of what is pinned, and readers get it from elsewhere.
 */
#include "volume-internal.h"

#include "conf.h"
#include "plan.h"

/* For packs, once the index knows all the targets and guests have made way for them. */
static uint64_t capacity(struct volume *v, const struct cache_stat *s, struct targets *t)
{
    uint64_t room = cache_guests_spare(v->cache, targets_have, t), last = 0;
    for (size_t i = 0; i < s->n_tiers; i++)
        room += s->tiers[i].capacity;
    for (size_t i = 0; i < t->n; i++) {
        const struct target *target = target_at(t, i);
        uint64_t end = target->id + unit_count(target->size) - 1;
        last = end > last ? end : last;
    }
    uint64_t index = cache_index_growth(v->cache, last);
    return index < room ? room - index : 0;
}

/* What guests hold takes no room in packs: it is left out of that already. */
static uint64_t size_in_packs(struct volume *v, const struct target *t)
{
    uint64_t size = 0;
    for (uint64_t u = 0; u < unit_count(t->size); u++)
        size += cache_guests_have(v->cache, t->id + u) ? 0 : unit_length(t->size, u);
    return size;
}

static void leave_out(struct volume *v, struct targets *t, const struct plan_fit *fit,
                      struct warmup_result *ret)
{
    ret->room = fit->room;
    for (size_t i = fit->fitting; i < t->n; i++) {
        const struct target *target = target_at(t, i);
        cache_pin(v->cache, target->id, target->size, false);
        ret->unfit++;
        ret->unfit_bytes += target->size;
    }
    t->n = fit->fitting;
    t->bytes -= ret->unfit_bytes;
}

int targets_fit(struct volume *v, struct catalog *c, struct targets *t, bool is_share,
                struct warmup_result *ret, struct err *err)
{
    struct cache_stat s;
    cache_stat(v->cache, &s);
    uint64_t room = capacity(v, &s, t);
    /* Heads of packs, and room to copy one. */
    struct plan_fit fit = {.room = room, .ratio = s.compressed && s.ratio > 0 ? s.ratio : 1.0};
    if (is_share)
        fit.room -= room / SHARE_SLACK;
    for (size_t i = 0; i < t->n; i++)
        plan_fit_add(&fit, target_at(t, i)->id, size_in_packs(v, target_at(t, i)));
    cleanup_bytes struct bytes path = {0};
    if (fit.first_too_many_id)
        catalog_path(c, fit.first_too_many_id, &path, NULL);
    if (!is_share)
        return plan_fit_check(&fit, path.data ? path.data : "?", err);
    if (!fit.first_too_many_id)
        return 0;
    leave_out(v, t, &fit, ret);
    snprintf(ret->first_unfit, sizeof ret->first_unfit, "%s", path.data ? path.data : "?");
    return 0;
}

void unfit_text(const struct warmup_result *r, char *out, size_t size)
{
    char bytes[32], room[32];
    conf_format_size(r->unfit_bytes, bytes);
    conf_format_size(r->room, room);
    snprintf(out, size,
             "%llu samples (%s) of this share do not fit into %s, from %.200s on: they come from "
             "elsewhere when they are read (give it a larger --cache, or more partitions)",
             (unsigned long long)r->unfit, bytes, room, r->first_unfit);
}

/*
 * Parts: what is cached, made ready for another machine. Nothing is fetched for it, and where the
 * pack has the bytes as they are, they are not even touched here.
 */
#include "cache-internal.h"

#include "crc.h"

static int not_here(uint64_t unit, struct err *err)
{
    return err_set(err, ERR_NOT_FOUND, "unit %llu is not here", (unsigned long long)unit);
}

/* Stripe held. 1: it is in memory; 0: it is in a pack; -1: it is not here. */
static int find(struct cache *c, uint64_t unit, const struct piece *p, struct view *ret_view,
                uint32_t *ret_len)
{
    const struct fill *f = fill_find(stripe_of(c, unit), unit);
    if (!f)
        return 0;
    if (f->state != FILL_READY)
        return -1;
    buf_view(f->buf, f->len, p, ret_view);
    *ret_len = f->len;
    return 1;
}

static void use_view(struct cache_part *part)
{
    part->len = (uint32_t)part->view.len;
    part->crc = crc32c(0, part->view.ptr, part->view.len);
}

/* The record's place, or a verified view of it. */
static enum pack_result look(struct cache *c, struct extent_ref *x, const struct piece *p,
                             struct cache_part *ret)
{
    bool plain = false;
    enum pack_result rc = PACK_OK;
    ret->unit_len = x->entry.raw;
    if (p->off == 0 && p->len >= x->entry.raw)
        rc = pack_whole(x, p->unit, &plain, &ret->offset, &ret->crc);
    if (rc != PACK_OK)
        return rc;
    if (plain) {
        ret->len = x->entry.raw;
        ret->pack = x->pack;
        x->pack = NULL; /* the part's now */
        return PACK_OK;
    }
    rc = pack_view(c, x, p->unit, p->off, p->len, &ret->view);
    if (rc == PACK_OK)
        use_view(ret);
    return rc;
}

int cache_part_find(struct cache *c, uint64_t unit, uint32_t off, uint32_t len,
                    struct cache_part *ret, struct err *err)
{
    const struct piece p = {.unit = unit, .off = off, .len = len};
    struct extent_ref x;
    int in_memory;
    *ret = (struct cache_part){0};
    {
        ACQUIRE(&stripe_of(c, unit)->lock);
        in_memory = find(c, unit, &p, &ret->view, &ret->unit_len);
    }
    if (in_memory > 0)
        use_view(ret);
    if (in_memory > 0)
        return 0;
    if (in_memory < 0 || !place_find(c, unit, &x))
        return not_here(unit, err);
    enum pack_result rc = look(c, &x, &p, ret);
    if ((rc == PACK_BAD || rc == PACK_IO) && place_forget(c, unit, &x.entry))
        counter_add(&c->counts->corrupt, 1);
    if (x.pack)
        pack_unref(x.pack);
    if (rc == PACK_NO_ROOM)
        return err_set(err, ERR_LIMIT, "no memory to unpack unit %llu now",
                       (unsigned long long)unit);
    return rc == PACK_OK ? 0 : not_here(unit, err);
}

void cache_part_release(struct cache_part *p)
{
    if (p->pack)
        pack_unref(p->pack);
    view_release(&p->view);
    p->pack = NULL;
}

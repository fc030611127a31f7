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

/* PART_RECORD: if anywhere, in a pack. */
enum part_found { PART_ABSENT, PART_MEMORY, PART_GUEST, PART_RECORD };

static enum part_found find(struct cache *c, const struct piece *p, struct view *ret_view)
{
    struct stripe *s = stripe_of(c, p->unit);
    ACQUIRE(&s->lock);
    const struct fill *f = fill_find(s, p->unit);
    if (f && f->state == FILL_READY) {
        buf_view(f->buf, f->len, p, ret_view);
        return PART_MEMORY;
    }
    if (guests_have(c, p->unit))
        return PART_GUEST;
    return f ? PART_ABSENT : PART_RECORD;
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

static int no_memory_now(uint64_t unit, struct err *err)
{
    return err_set(err, ERR_LIMIT, "no memory to unpack unit %llu now", (unsigned long long)unit);
}

static int part_of_record(struct cache *c, const struct piece *p, struct cache_part *ret,
                          struct err *err)
{
    struct extent_ref x;
    if (!place_find(c, p->unit, &x))
        return not_here(p->unit, err);
    enum pack_result rc = look(c, &x, p, ret);
    place_is_bad(c, p->unit, &x.entry, rc);
    if (x.pack)
        pack_unref(x.pack);
    if (rc == PACK_NO_ROOM)
        return no_memory_now(p->unit, err);
    return rc == PACK_OK ? 0 : not_here(p->unit, err);
}

/* Looked at as the disk has it now: another machine would keep what is wrong under a right sum. */
static int part_of_guest(struct cache *c, const struct piece *p, struct cache_part *ret,
                         struct err *err)
{
    if (c->guests.ops->verify(c->guests.arg, p->unit, NULL))
        return not_here(p->unit, err);
    switch (guests_read(c, p, &ret->view, err)) {
    case 0:
        use_view(ret);
        return 0;
    case -1:
        return -1;
    case READ_NO_ROOM:
        return no_memory_now(p->unit, err);
    default:
        return not_here(p->unit, err);
    }
}

int cache_part_find(struct cache *c, uint64_t unit, uint32_t off, uint32_t len,
                    struct cache_part *ret, struct err *err)
{
    const struct piece p = {.unit = unit, .off = off, .len = len < UNIT_BYTES ? len : UNIT_BYTES};
    *ret = (struct cache_part){0};
    switch (find(c, &p, &ret->view)) {
    case PART_MEMORY:
        use_view(ret);
        return 0;
    case PART_GUEST:
        return part_of_guest(c, &p, ret, err);
    case PART_RECORD:
        return part_of_record(c, &p, ret, err);
    default:
        return not_here(unit, err);
    }
}

void cache_part_release(struct cache_part *p)
{
    if (p->pack)
        pack_unref(p->pack);
    view_release(&p->view);
    p->pack = NULL;
}

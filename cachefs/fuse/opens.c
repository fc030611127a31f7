/* The table of open inodes: opens-internal.h tells how it survives a kill. */
#include "opens-internal.h"

#include <stddef.h>
#include <string.h>

static uint32_t *bucket_of(struct opens *o, uint64_t ino)
{
    return &o->buckets[ino % OPENS_BUCKETS];
}

static void link_entry(struct opens *o, uint32_t at)
{
    uint32_t *head = bucket_of(o, o->kept->entries[at].ino);

    o->next[at] = *head;
    *head = at + 1;
}

static void unlink_entry(struct opens *o, uint32_t at, uint64_t ino)
{
    uint32_t *link = bucket_of(o, ino);

    while (*link && *link != at + 1)
        link = &o->next[*link - 1];
    if (*link)
        *link = o->next[at];
}

/* Carries the intent out: any number of times with the same outcome. */
static void carry_out(struct kept_opens *k)
{
    k->entries[k->intent.at] = k->intent.to;
    if (k->intent.unique &&
        (!k->n_done || k->done[(k->n_done - 1) % OPENS_DONE] != k->intent.unique)) {
        k->done[k->n_done % OPENS_DONE] = k->intent.unique;
        atomic_signal_fence(memory_order_release);
        k->n_done++;
    }
}

int32_t opens_load(struct opens *o, struct kept_opens *kept)
{
    int32_t closes = 0;

    memset(o, 0, sizeof(*o));
    o->kept = kept;
    if (atomic_load(&kept->intent.armed) && kept->intent.at < OPENS_MAX) {
        carry_out(kept);
        closes = kept->intent.closes;
    }
    atomic_store(&kept->intent.armed, 0);
    for (uint32_t i = OPENS_MAX; i-- > 0;) {
        if (kept->entries[i].opens) {
            link_entry(o, i);
        } else {
            o->next[i] = o->free;
            o->free = i + 1;
        }
    }
    return closes;
}

struct kept_open *opens_find(struct opens *o, uint64_t ino)
{
    for (uint32_t at = *bucket_of(o, ino); at; at = o->next[at - 1])
        if (o->kept->entries[at - 1].ino == ino)
            return &o->kept->entries[at - 1];
    return NULL;
}

struct kept_open *opens_change(struct opens *o, uint64_t unique, const struct kept_open *to)
{
    struct kept_opens *k = o->kept;
    struct kept_open *e = opens_find(o, to->ino);
    bool is_new = !e;

    if (is_new && !o->free)
        return NULL;
    if (is_new) {
        e = &k->entries[o->free - 1];
        o->free = o->next[o->free - 1];
    }
    k->intent.at = opens_at(o, e);
    k->intent.unique = unique;
    k->intent.to = *to;
    k->intent.closes = to->opens ? 0 : to->backing_id;
    atomic_store(&k->intent.armed, 1);
    carry_out(k);
    atomic_store(&k->intent.armed, 0);
    if (is_new)
        link_entry(o, opens_at(o, e));
    if (!to->opens) {
        unlink_entry(o, opens_at(o, e), to->ino);
        o->next[opens_at(o, e)] = o->free;
        o->free = opens_at(o, e) + 1;
    }
    return e;
}

bool opens_counted(const struct opens *o, uint64_t unique)
{
    for (uint32_t i = 0; i < OPENS_DONE; i++)
        if (o->kept->done[i] == unique)
            return true;
    return false;
}

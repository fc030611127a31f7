/* The snapshots behind .sampan/status.json. */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "mem.h"
#include "snapshots.h"

void snapshots_init(struct snapshots *s)
{
    memset(s, 0, sizeof(*s));
    lock_init(&s->lock, RANK_METRICS, "fuse snapshots");
    s->next = INO_SNAPSHOTS;
}

static void snapshot_drop(struct snapshot *s)
{
    free(s->text);
    memset(s, 0, sizeof(*s));
}

/* Numbers are handed out in turn, so slot = number modulo the table. */
static struct snapshot *slot_of(struct snapshots *s, uint64_t ino)
{
    return &s->slots[(ino - INO_SNAPSHOTS) % SNAPSHOTS_MAX];
}

/* --- what outlives the process --------------------------------------------------------------- */

static struct kept_snapshot *kept_find(struct snapshots *s, uint64_t ino)
{
    for (size_t i = 0; s->kept && i < SNAPSHOTS_KEPT; i++)
        if (atomic_load(&s->kept->of[i].ino) == ino)
            return &s->kept->of[i];
    return NULL;
}

/* An empty place, or that of the oldest. */
static struct kept_snapshot *kept_place(struct snapshots *s)
{
    struct kept_snapshot *oldest = NULL;
    for (size_t i = 0; s->kept && i < SNAPSHOTS_KEPT; i++) {
        struct kept_snapshot *k = &s->kept->of[i];
        if (!oldest || atomic_load(&k->ino) < atomic_load(&oldest->ino))
            oldest = k;
    }
    return oldest;
}

static void keep_one(struct snapshots *s, const struct snapshot *slot)
{
    struct kept_snapshot *k = slot->len <= SNAPSHOT_KEPT_TEXT ? kept_place(s) : NULL;
    if (!k)
        return;
    atomic_store(&k->ino, 0);
    k->lookups = slot->lookups;
    k->len = slot->len;
    k->made_ns = slot->made_ns;
    memcpy(s->kept->texts[k - s->kept->of], slot->text, slot->len);
    atomic_store(&k->ino, slot->ino);
}

static void keep_lookups(struct snapshots *s, uint64_t ino, uint64_t lookups)
{
    struct kept_snapshot *k = kept_find(s, ino);
    if (!k)
        return;
    k->lookups = lookups;
    if (!lookups)
        atomic_store(&k->ino, 0);
}

/* What lies there was written by another process: it is believed no further than its bounds. */
static void take_in(struct snapshots *s, const struct kept_snapshot *k, const char *text)
{
    uint64_t ino = atomic_load(&k->ino), len = k->len;
    if (!ino_is_snapshot(ino) || ino >= s->next || len > SNAPSHOT_KEPT_TEXT)
        return;
    struct snapshot *slot = slot_of(s, ino);
    if (slot->ino > ino)
        return;
    snapshot_drop(slot);
    *slot = (struct snapshot){.ino = ino,
                              .lookups = k->lookups ? k->lookups : 1,
                              .text = xmalloc(len + 1),
                              .len = len,
                              .made_ns = k->made_ns,
                              .read = true};
    memcpy(slot->text, text, len);
}

void snapshots_keep(struct snapshots *s, struct kept_snapshots *kept)
{
    uint64_t next = atomic_load(&kept->next);

    s->kept = kept;
    if (next > s->next && next < UINT64_MAX / 4 * 3)
        s->next = next;
    for (size_t i = 0; i < SNAPSHOTS_KEPT; i++)
        take_in(s, &kept->of[i], kept->texts[i]);
}

/* --- one a look-up ---------------------------------------------------------------------------- */

void snapshots_destroy(struct snapshots *s)
{
    for (size_t i = 0; i < SNAPSHOTS_MAX; i++)
        snapshot_drop(&s->slots[i]);
    lock_destroy(&s->lock);
}

/* Passes over the numbers whose slot somebody still holds: a reader that was slow between its open
 * and its read keeps its text however many others come by. Only a full table loses its oldest. */
static uint64_t next_number(struct snapshots *s)
{
    for (size_t i = 0; i < SNAPSHOTS_MAX && slot_of(s, s->next)->ino; i++)
        s->next++;
    return s->next++;
}

uint64_t snapshots_add(struct snapshots *s, char *text, size_t len, int pid)
{
    ACQUIRE(&s->lock);
    uint64_t ino = next_number(s);
    struct snapshot *slot = slot_of(s, ino);

    if (s->kept)
        atomic_store(&s->kept->next, s->next);
    snapshot_drop(slot);
    *slot = (struct snapshot){
        .ino = ino, .lookups = 1, .text = text, .len = len, .made_ns = clock_wall_ns(), .pid = pid};
    keep_one(s, slot);
    return ino;
}

uint64_t snapshots_again(struct snapshots *s, int pid)
{
    ACQUIRE(&s->lock);
    struct snapshot *newest = slot_of(s, s->next - 1);
    int64_t age = clock_wall_ns() - newest->made_ns;

    if (!newest->ino || newest->pid != pid || newest->read || age < 0 || age > (int64_t)NS_PER_S)
        return 0;
    newest->lookups++;
    keep_lookups(s, newest->ino, newest->lookups);
    return newest->ino;
}

void snapshots_forget(struct snapshots *s, uint64_t ino, uint64_t lookups)
{
    ACQUIRE(&s->lock);
    struct snapshot *slot = slot_of(s, ino);

    if (slot->ino != ino)
        return;
    keep_lookups(s, ino, slot->lookups > lookups ? slot->lookups - lookups : 0);
    if (slot->lookups > lookups)
        slot->lookups -= lookups;
    else
        snapshot_drop(slot);
}

ssize_t snapshots_read(struct snapshots *s, uint64_t ino, uint64_t off, void *out, size_t size,
                       struct snapshot *ret_about)
{
    ACQUIRE(&s->lock);
    struct snapshot *slot = slot_of(s, ino);
    size_t n = 0;

    if (slot->ino != ino)
        return -1;
    if (off < slot->len)
        n = slot->len - off < size ? slot->len - (size_t)off : size;
    if (out)
        slot->read = true;
    if (out && n)
        memcpy(out, slot->text + off, n);
    if (ret_about) {
        *ret_about = *slot;
        ret_about->text = NULL; /* the text stays here */
    }
    return (ssize_t)n;
}

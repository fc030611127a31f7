/* The snapshots behind .sampan/status.json. */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "snapshots.h"

void snapshots_init(struct snapshots *s)
{
    memset(s, 0, sizeof(*s));
    lock_init(&s->lock, RANK_METRICS, "fuse snapshots");
    s->next = INO_SNAPSHOTS;
}

void snapshots_keep(struct snapshots *s, _Atomic uint64_t *kept)
{
    uint64_t next = atomic_load(kept);

    s->kept = kept;
    if (next > s->next)
        s->next = next;
}

static void snapshot_drop(struct snapshot *s)
{
    free(s->text);
    memset(s, 0, sizeof(*s));
}

void snapshots_destroy(struct snapshots *s)
{
    for (size_t i = 0; i < SNAPSHOTS_MAX; i++)
        snapshot_drop(&s->slots[i]);
    lock_destroy(&s->lock);
}

/* Numbers are handed out in turn, so slot = number modulo the table. */
static struct snapshot *slot_of(struct snapshots *s, uint64_t ino)
{
    return &s->slots[(ino - INO_SNAPSHOTS) % SNAPSHOTS_MAX];
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
        atomic_store(s->kept, s->next);
    snapshot_drop(slot);
    *slot = (struct snapshot){
        .ino = ino, .lookups = 1, .text = text, .len = len, .made_ns = clock_wall_ns(), .pid = pid};
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
    return newest->ino;
}

void snapshots_forget(struct snapshots *s, uint64_t ino, uint64_t lookups)
{
    ACQUIRE(&s->lock);
    struct snapshot *slot = slot_of(s, ino);

    if (slot->ino != ino)
        return;
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

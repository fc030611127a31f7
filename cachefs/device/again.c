/*
 * Reads that failed after a long wait.
 *
 * What the kernel was refused while it read ahead it asks for once more, for the thread that wants
 * it, which would wait as long again to be told the same. That one question has its answer already.
 * Whoever reads again after that is a new reader, and tries anew.
 */
#include "again.h"

void again_init(struct again *a)
{
    lock_init(&a->lock, RANK_METRICS, "fuse failed reads");
}

void again_destroy(struct again *a)
{
    lock_destroy(&a->lock);
}

void again_note(struct again *a, const struct failed_read *read, uint64_t started_ns,
                uint64_t now_ns)
{
    if (now_ns - started_ns < AGAIN_LONG_NS)
        return;
    ACQUIRE(&a->lock);
    a->reads[a->next] = *read;
    a->reads[a->next].until_ns = now_ns + AGAIN_ASKED_NS;
    a->next = (a->next + 1) % AGAIN_KEPT;
    atomic_store_explicit(&a->until_ns, now_ns + AGAIN_ASKED_NS, memory_order_relaxed);
}

int again_error(struct again *a, uint32_t pid, uint64_t ino, uint64_t off, uint64_t now_ns)
{
    if (now_ns >= atomic_load_explicit(&a->until_ns, memory_order_relaxed))
        return 0;
    ACQUIRE(&a->lock);
    for (unsigned i = 0; i < AGAIN_KEPT; i++) {
        struct failed_read *r = &a->reads[i];
        if (now_ns < r->until_ns && r->pid == pid && r->ino == ino && off >= r->off &&
            off - r->off < r->size) {
            r->until_ns = 0;
            return r->error;
        }
    }
    return 0;
}

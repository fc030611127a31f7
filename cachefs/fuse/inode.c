/* Inode numbers and attributes; the snapshots behind .sampan/status.json. */
#include <errno.h>
#include <string.h>

#include "clock.h"
#include "frontend-internal.h"
#include "mem.h"

#define BLOCK_SIZE (128u << 10) /* one chunk of the cache: the read that costs least a byte */

static void set_times(struct stat *st, int64_t ns)
{
    int64_t s = ns / (int64_t)NS_PER_S;
    int64_t rest = ns % (int64_t)NS_PER_S;

    if (rest < 0) {
        rest += (int64_t)NS_PER_S;
        s--;
    }
    st->st_mtim = (struct timespec){.tv_sec = s, .tv_nsec = rest};
    st->st_ctim = st->st_mtim;
    st->st_atim = st->st_mtim;
}

/* Folders have one link, as on btrfs: "two and one for each sub-folder" would need counting, and a
 * wrong count makes walkers skip sub-folders, while 1 tells them not to rely on it. */
static void set_common(const struct frontend *f, struct stat *st, uint64_t ino, bool folder,
                       uint64_t size)
{
    memset(st, 0, sizeof(*st));
    st->st_ino = ino;
    st->st_mode = folder ? S_IFDIR | 0555 : S_IFREG | 0444;
    st->st_nlink = 1;
    st->st_uid = f->conf.uid;
    st->st_gid = f->conf.gid;
    st->st_size = folder ? 4096 : (off_t)size;
    st->st_blocks = folder ? 8 : (blkcnt_t)((size + 511) / 512);
    st->st_blksize = BLOCK_SIZE;
}

void attr_of_entry(const struct frontend *f, const struct entry *e, struct stat *ret)
{
    set_common(f, ret, e->id, e->folder, e->size);
    set_times(ret, e->mtime_ns);
}

void attr_of_control_dir(const struct frontend *f, struct stat *ret)
{
    set_common(f, ret, INO_CONTROL_DIR, true, 0);
}

void attr_of_snapshot(const struct frontend *f, const struct snapshot *s, struct stat *ret)
{
    set_common(f, ret, s->ino, false, s->len);
    set_times(ret, s->made_ns);
}

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

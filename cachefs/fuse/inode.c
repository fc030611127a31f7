/* Inode numbers and attributes. */
#include <string.h>

#include "clock.h"
#include "frontend-internal.h"

#define BLOCK_SIZE   (128u << 10) /* one chunk of the cache: the read that costs least a byte */
#define LISTING_SIZE (256u << 10) /* what C libraries list a folder with: 1400 entries at once */

/* A time that the source did not tell (a manifest without times) is 1970: as the number that stands
 * for it, it would be a day in 1677, at which tar and rsync take offence. */
static void set_times(struct stat *st, int64_t ns)
{
    st->st_mtim = clock_timespec(ns == CATALOG_NO_MTIME ? 0 : ns);
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
    st->st_blksize = folder ? LISTING_SIZE : BLOCK_SIZE;
}

void attr_of_entry(const struct frontend *f, const struct entry *e, struct stat *ret)
{
    set_common(f, ret, e->id, e->folder, e->size);
    set_times(ret, e->mtime_ns);
}

void attr_of_own_dir(const struct frontend *f, uint64_t ino, struct stat *ret)
{
    set_common(f, ret, ino, true, 0);
}

void attr_of_snapshot(const struct frontend *f, const struct snapshot *s, struct stat *ret)
{
    set_common(f, ret, s->ino, false, s->len);
    set_times(ret, s->made_ns);
}

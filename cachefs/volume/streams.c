/*
 * What readers seem to do, where no order is known: pure bookkeeping on (sample, offset).
 *
 * A stream follows one reader. It goes on within a sample (offsets rise), or to one of the next ids
 * (a walk: `cp -r`, `tar`, a loader without shuffle; ids follow the listing). After a few steps in
 * a row it asks for what comes next: blocks of a large sample, twice as many whenever twice as much
 * was read in a row, or the ids that follow, twice as far each time. Reads come a little out of
 * order (kernel readahead, several threads of one reader): small steps back neither count nor break
 * a run. Anything else starts a new stream in place of the oldest, so that random reads ask for
 * nothing.
 */
#include "volume-internal.h"

#define NEAR_BYTES   (4ull << 20) /* a step on within a sample */
#define BACK_BYTES   (2ull << 20)
#define NEAR_IDS     8 /* a step on to a next sample; folders have ids too */
#define RUN_BYTES    2 /* steps until blocks are fetched ahead */
#define RUN_IDS      3 /* steps until siblings are */
#define BLOCKS_FIRST 2 /* blocks ahead at first, and whatever else is read */
#define IDS_FIRST    4
#define LATELY       (8 * STREAMS) /* reads of any stream */

enum step { STEP_NONE, STEP_WITHIN, STEP_SAME, STEP_NEXT };

static enum step step_of(const struct stream *s, uint64_t id, uint64_t off)
{
    if (!s->used)
        return STEP_NONE;
    if (id == s->id) {
        if (off > s->pos)
            return off - s->pos <= NEAR_BYTES ? STEP_WITHIN : STEP_NONE;
        return s->pos - off <= BACK_BYTES ? STEP_SAME : STEP_NONE;
    }
    uint64_t end = s->id + s->pos / UNIT_BYTES;
    if (id > end)
        return id - end <= NEAR_IDS ? STEP_NEXT : STEP_NONE;
    return id < s->id && s->id - id <= NEAR_IDS && s->ids_run > 0 ? STEP_SAME : STEP_NONE;
}

/* The stream that this read continues, or the one to be given up for it. */
static struct stream *stream_for(struct streams *all, uint64_t id, uint64_t off, enum step *ret)
{
    struct stream *oldest = &all->s[0];
    for (size_t i = 0; i < STREAMS; i++) {
        struct stream *s = &all->s[i];
        *ret = step_of(s, id, off);
        if (*ret != STEP_NONE)
            return s;
        /* Another place in a sample that is being followed: that reader jumped. */
        if (s->used && s->id == id)
            return s;
        if (s->used < oldest->used)
            oldest = s;
    }
    *ret = STEP_NONE;
    return oldest;
}

/* Streams that share the room for blocks. */
static unsigned blocks_read_by(const struct streams *all)
{
    unsigned n = 0;
    for (size_t i = 0; i < STREAMS; i++)
        n += all->s[i].bytes_run >= RUN_BYTES && all->clock - all->s[i].used < LATELY;
    return n ? n : 1;
}

/* How many blocks are to lie ahead. What is fetched for nothing, when the reader stops, is bounded
 * by what it has read. */
static uint64_t blocks_wanted(const struct streams *all, const struct stream *s, unsigned room)
{
    uint64_t read = (s->pos - s->run_from) / UNIT_BYTES;
    uint64_t most = room / blocks_read_by(all), depth = BLOCKS_FIRST;
    while (depth < most && depth < 2 * read)
        depth *= 2;
    return depth > most && most >= BLOCKS_FIRST ? most : depth;
}

static struct ahead_job blocks_ahead(const struct streams *all, struct stream *s, unsigned room)
{
    struct ahead_job none = {.kind = AHEAD_NONE};
    uint64_t block = s->pos / UNIT_BYTES;
    /* Not for a sample of a few reads: wait until it looks like one of several blocks. */
    if (s->bytes_run < RUN_BYTES || s->pos < UNIT_BYTES / 4)
        return none;
    uint64_t depth = blocks_wanted(all, s, room);
    uint64_t first = (s->units_issued > block ? s->units_issued : block) + 1;
    if (first > block + depth)
        return none;
    s->units_issued = block + depth;
    return (struct ahead_job){AHEAD_UNITS, s->id, first, block + depth};
}

static struct ahead_job siblings_ahead(struct stream *s, unsigned depth)
{
    struct ahead_job none = {.kind = AHEAD_NONE};
    if (s->ids_run < RUN_IDS || depth == 0)
        return none;
    unsigned doubled = s->ids_run - RUN_IDS;
    uint64_t window = doubled < 16 ? (uint64_t)IDS_FIRST << doubled : depth;
    if (window > depth)
        window = depth;
    uint64_t first = (s->ids_issued > s->id ? s->ids_issued : s->id) + 1;
    uint64_t last = s->id + window;
    if (first > last || (last - first + 1) * 2 < window)
        return none; /* half of the window is still ahead */
    s->ids_issued = last;
    return (struct ahead_job){AHEAD_SIBLINGS, s->id, first, last};
}

void streams_no_room(struct streams *all, uint64_t id, uint64_t block)
{
    for (size_t i = 0; i < STREAMS; i++) {
        struct stream *s = &all->s[i];
        if (s->used && s->id == id && s->units_issued >= block)
            s->units_issued = block - 1;
    }
}

bool streams_passed(const struct streams *all, uint64_t id, uint64_t block)
{
    for (size_t i = 0; i < STREAMS; i++)
        if (all->s[i].used && all->s[i].id == id && all->s[i].pos / UNIT_BYTES >= block)
            return true;
    return false;
}

struct ahead_job streams_seen(struct streams *all, uint64_t id, uint64_t off, struct reach reach)
{
    enum step step;
    struct stream *s = stream_for(all, id, off, &step);
    s->used = ++all->clock;
    switch (step) {
    case STEP_SAME:
        break;
    case STEP_WITHIN:
        s->bytes_run++;
        s->pos = off;
        return blocks_ahead(all, s, reach.blocks);
    case STEP_NEXT:
        s->ids_run++;
        s->id = id;
        s->pos = s->run_from = off;
        s->bytes_run = 0;
        s->units_issued = 0;
        return siblings_ahead(s, reach.siblings);
    case STEP_NONE:
        *s = (struct stream){.id = id, .pos = off, .run_from = off, .used = all->clock};
        break;
    }
    return (struct ahead_job){.kind = AHEAD_NONE};
}

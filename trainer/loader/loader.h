/*
 * The loader: the batches that one rank of a training job reads, in the exact order of its sampler,
 * decoded and augmented by threads that run ahead of the consumer.
 *
 *   index     the folder's samples, numbered as Paddle's DatasetFolder and torch's ImageFolder do
 *             (docs/formats/catalog.md); a label is the place of the first-level folder among all
 *             of them, empty ones too; or path and label come from a list
 *   order     common/order, bit for bit
 *   bytes     straight from the packs of the mount's cache, where its owner hands them out
 *             (docs/formats/control.md, `share`); else by open, read, close
 *   pixels    JPEG (scaled by the DCT as far as the crop allows) or PNG, whichever the bytes are,
 *             to RGB, cropped, resized, flipped
 *   batches   strictly in order, in buffers that come from the caller's allocator
 *
 * The result depends on the options and the samples alone: not on the number of threads, nor on
 * where the bytes came from, nor on a resume in between. The draws of a sample are a function of
 * (seed, epoch, sample number).
 *
 * Threads: one thread at a time calls loader_next…(), loader_set_epoch() and loader_close(). All
 * other functions may be called from any thread meanwhile. A process that is forked off has none of
 * the loader's threads: it must not call anything, loader_close() included.
 *
 * This header and err.h are all that a program outside of this tree needs (libsampan-loader).
 */
#ifndef SAMPAN_LOADER_H
#define SAMPAN_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where batches lie. A GPU backend gives pinned memory here; NULL members mean plain memory,
 * aligned to 64 bytes. Called in loader_open() and loader_close() only (and, for raw batches, when
 * a batch outgrows its buffer: then on a thread of the loader). */
struct loader_memory {
    void *(*alloc)(void *arg, size_t size, struct err *err); /* NULL: err says why */
    void (*free)(void *arg, void *p, size_t size);
    void *arg;
};

enum loader_format {
    LOADER_FLOAT, /* float RGB, NHWC: (value / 255 - mean) / std of its channel */
    LOADER_UINT8, /* RGB, NHWC, as decoded: the consumer normalises */
    LOADER_RAW,   /* the file's bytes as they are: `pixels` is NULL, `data` and `sizes` are set */
};
enum loader_crop {
    LOADER_CROP_RANDOM, /* training: a random part (area 8-100 %, aspect 3:4-4:3), flipped half the
                           time, resized to height x width */
    LOADER_CROP_CENTRE, /* evaluation: the shorter side to `resize`, then the middle */
    LOADER_CROP_NONE,   /* the whole picture, resized (its aspect may change) */
};
enum loader_policy {
    LOADER_FAIL, /* a sample that cannot be read or decoded ends the epoch: path and reason */
    LOADER_SKIP, /* one that is no good (loader_bad_sample()) is left out of its batch (which is
                    shorter then) and counted; one that cannot be read ends the epoch as above: a
                    store that fails would pass for a set without it */
};
enum loader_direct {
    LOADER_DIRECT_AUTO, /* from packs where that works, else through the mount; figures say why */
    LOADER_DIRECT_OFF,
    LOADER_DIRECT_ONLY, /* what no pack can give is an error (measurements, tests) */
};

/* All zero but `dir` and `height`, `width`: sensible. loader_options_init() sets what is not 0. */
struct loader_options {
    const char *dir; /* a mounted set, or any folder */
    /* NULL: walk. A file of lines "PATH", or all of them "PATH LABEL", relative to dir */
    const char *list;
    /* NULL: "sequence"; a SPEC with ranks= and rank= (docs/formats/order.md) */
    const char *sampler;
    const char *resume; /* NULL, or a token of loader_token(): the rest of its epoch first, in the
                           order of then, dealt to the ranks of `sampler`, which may differ from
                           before, as may `batch`. `sampler` has the same name then (NULL: the
                           token's), and the epochs after it are its, with its seed */
    uint32_t batch;     /* samples a batch (32) */
    bool drop_last;     /* leave a last batch that is not full out */
    uint32_t epochs;    /* so many, from the sampler's epoch on; 0: until closed */

    uint32_t threads; /* readers and decoders (0: one a core that this process may use, 256 at most)
                       */
    uint32_t depth;   /* batches in buffers (2: double buffers; what a consumer keeps counts) */

    enum loader_format format;
    enum loader_crop crop;
    uint32_t height, width; /* of what comes out (224 x 224) */
    uint32_t resize; /* centre crop: the shorter side before it (0: 256 / 224 of the larger) */
    float mean[3], std[3]; /* of RGB in 0..1 (ImageNet's; std 0 means 1) */
    bool no_flip;
    uint64_t seed; /* of the augmentation */

    enum loader_policy policy;
    uint64_t max_pixels; /* a picture with more, as decoded (a JPEG after DCT scaling), is refused
                            (64 Mi) */
    uint64_t max_bytes;  /* a file with more is refused (64 MiB) */

    enum loader_direct direct;
    bool verify_always; /* direct: check sums at each read, not at the first one only */
    bool quiet_mount;   /* do not tell the mount sampler and epochs */

    struct loader_memory memory;
};
void loader_options_init(struct loader_options *o);

/* A batch: the consumer's until loader_release(). The buffers of a `slot` (0 .. depth-1) stay where
 * they are for the life of the loader; only what raw samples point to may be elsewhere each time.
 */
struct loader_batch {
    uint32_t n; /* samples; less than asked for at the end of an epoch, or when some were skipped */
    uint32_t h, w, c;
    enum loader_format format;
    void *pixels;               /* n * h * w * c values, NHWC; NULL for raw */
    const uint8_t *const *data; /* raw: n files, of so many bytes each; NULL otherwise */
    const uint64_t *sizes;
    const int32_t *labels;   /* n; -1: a list without labels */
    const uint64_t *numbers; /* n sample numbers, in order */
    uint64_t epoch;
    uint64_t step;     /* of the epoch, from 0; goes on where a resumed epoch was */
    uint64_t position; /* samples of this rank's epoch so far, with this batch and skipped ones */
    uint32_t skipped;  /* of this batch */
    uint32_t slot;
};

struct loader;
/* Lists the folder, prepares the order, starts the threads. No sample at all is ERR_NOT_FOUND.
 * Fewer samples than ranks: as the sampler deals them (repeats, or nothing with its drop-last). */
int loader_open(struct loader **ret, const struct loader_options *o, struct err *err);
/* Ends the threads (what they decode is thrown away) and frees all, batches as well. NULL is fine.
 */
void loader_close(struct loader *l);

/*
 * The next batch. 1: *ret is set. 0: the epoch is at its end; the next call begins the next one,
 * unless it was the last (then 0 again). -1: it cannot go on, err names the sample; the next call
 * says the same. Waits for the decoders (and reads raw samples from packs itself meanwhile); LIMIT
 * if the consumer holds all `depth` batches itself.
 */
int loader_next(struct loader *l, const struct loader_batch **ret, struct err *err);
/* The same, but waits no longer than this. LOADER_LATE: there is no batch yet; it is still awaited,
 * and a later call gives it. */
#define LOADER_LATE 2
int loader_next_within(struct loader *l, uint64_t wait_ns, const struct loader_batch **ret,
                       struct err *err);
/* Gives a batch back: its buffers are filled anew. Any thread; NULL is fine. */
void loader_release(struct loader *l, const struct loader_batch *b);

/* The next batch is the first of this epoch; what was decoded ahead is thrown away, unless this
 * epoch was about to begin anyhow. Of one that goes on from a token it is the first of the rest, as
 * long as none of that was given: so loops that set each epoch go on, too. Where all of it had been
 * read its end comes at once (without that call, the epoch after it begins). */
int loader_set_epoch(struct loader *l, uint64_t epoch, struct err *err);
/* The same, but waits no longer than this for threads that still read of another epoch.
 * LOADER_LATE: they do; until a later call succeeds nothing is read, and no batch comes. */
int loader_set_epoch_within(struct loader *l, uint64_t epoch, uint64_t wait_ns, struct err *err);
/* Nothing more is read, and no batch comes (who asks for one waits) until loader_set_epoch(): for
 * who is about to close. Has each thread come back within this time from what it read? If not,
 * loader_close() would wait for it, for as long as its file hangs. */
bool loader_rest(struct loader *l, uint64_t wait_ns);

/* What a checkpoint keeps: the place after the batch that loader_next() gave last (or where an
 * epoch that was set since begins), or (the second form) after that batch. One printable line of
 * less than LOADER_TOKEN_TEXT bytes. */
#define LOADER_TOKEN_TEXT 1600
int loader_token(struct loader *l, char ret[LOADER_TOKEN_TEXT], struct err *err);
int loader_token_after(struct loader *l, const struct loader_batch *b, char ret[LOADER_TOKEN_TEXT],
                       struct err *err);

/* What was found. Texts live as long as the loader. */
struct loader_info {
    uint64_t samples;       /* of the set */
    uint64_t epoch_samples; /* of this rank in its epoch, and the batches they make */
    uint64_t epoch_batches;
    uint64_t epoch; /* that of the next batch, and how many of its batches are to come */
    uint64_t left_batches;
    uint32_t classes, empty_classes;
    uint32_t ranks, rank;
    uint32_t threads, depth, batch;
    size_t batch_bytes; /* of one buffer of pixels (0: raw) */
};
void loader_info(struct loader *l, struct loader_info *ret);
const char *loader_class(const struct loader *l, uint32_t label); /* NULL: none */
/* Class folders without a sample (they count as classes all the same), and the first one's name. */
uint32_t loader_empty_classes(const struct loader *l, const char **ret_first);
/* The path of a sample, below the folder. */
const char *loader_path(const struct loader *l, uint64_t number);

/* Counters only grow. Times are nanoseconds; read, decode and idle are sums over the threads. */
struct loader_figures {
    uint64_t batches, samples; /* given out */
    uint64_t skipped;          /* samples left out */
    uint64_t waited_ns;  /* loader_next() without a finished batch: the consumer stalled … */
    uint64_t elapsed_ns; /* … of so much, from the first batch given out until the last call */
    double stall;        /* waited / elapsed of these, the wait for the first batch left out */
    uint64_t first_ns;   /* from open to the first batch */
    uint64_t read_ns, decode_ns, idle_ns;
    uint64_t direct_samples, direct_bytes; /* from packs */
    uint64_t mount_samples, mount_bytes;   /* by open, read, close */
    uint64_t direct_known;                 /* samples whose place in a pack is known now */
    uint64_t corrupt;     /* direct reads with a wrong sum, read again by the mount */
    uint64_t revoked;     /* packs that the owner took back */
    char direct_why[256]; /* why not directly; "" where it works */
    char mount_why[256];  /* why the mount is not told epochs; "" where it is */
};
void loader_figures(struct loader *l, struct loader_figures *ret);
/* What was wrong with the last samples skipped: at most 16, newest first; returns how many. */
struct loader_skip {
    uint64_t number;
    char why[480]; /* path and reason */
};
uint32_t loader_skips(struct loader *l, struct loader_skip *ret, uint32_t max);
/* Is an error about what is in a sample (it cannot be decoded, or is larger than the options
 * allow), rather than about reading it? */
bool loader_bad_sample(const struct err *why);

/* One picture as a loader with these options would give it, for programs that get pictures from
 * elsewhere (a predictor). Of the options count format (FLOAT, UINT8), crop, height, width, resize,
 * mean, std, no_flip, seed and max_pixels; `out` has height * width * 3 values. Any thread. */
int loader_picture(const struct loader_options *o, const void *bytes, size_t len, void *out,
                   struct err *err);

/* For bindings: the size of struct loader_options (0), _batch (1), _info (2), _figures (3) and
 * _skip (4) as this library was compiled; 0: none of them. */
uint32_t loader_layout(uint32_t which);

#ifdef __cplusplus
}
#endif

#endif

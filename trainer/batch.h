/*
 * Batches: where a rank's samples come from.
 *
 * Every source deals in the order of a sampler (common/order), so that several ranks together read
 * what one would, and begins in the middle of a pass where a checkpoint says so.
 */
#ifndef SAMPAN_TRAIN_BATCH_H
#define SAMPAN_TRAIN_BATCH_H

#include <stdbool.h>

#include "loader.h"
#include "model.h"
#include "net.h"

#define BATCH_TOKEN_LEN 1600
#define BATCH_STOPPED   2

struct batch_options {
    const char *data;    /* see batch_open() */
    const char *sampler; /* a SPEC without ranks and rank; NULL: distributed, shuffled by seed */
    size_t batch;        /* samples of this rank */
    uint64_t seed;
    uint32_t ranks, rank;
    int height, width;       /* of pictures */
    uint32_t threads;        /* of the loader */
    bool train;              /* random crops; else the middle, and each sample once */
    uint32_t passes;         /* no more are asked for, so none is read ahead; 0: as many as are */
    bool skip_bad;           /* pictures that cannot be decoded are left out, not an error */
    const char *resume;      /* NULL, or a token */
    bool (*ends)(void *arg); /* NULL, or: when it says so, nothing is waited for */
    void *arg;
    struct loader_memory memory; /* where pictures lie; a GPU copies from its own by itself */
};

struct batches {
    const struct batches_ops *ops;
    uint64_t samples;      /* of the set */
    uint64_t digest;       /* of what its numbers stand for; 0: the options alone say it */
    uint64_t pass_batches; /* of this rank in a whole pass */
    bool whole_batches;    /* none of fewer samples than a batch has (drop-last) */
    struct model_shape shape;
};

/* What the source itself measured, for progress and logs. Nanoseconds. */
struct batch_figures {
    uint64_t waited, read, decoded;
    uint64_t direct, mounted; /* samples by where their bytes came from */
    uint64_t skipped;         /* left out of the batches that were given */
    uint64_t left; /* batches of this pass that are still to come, once one of it was given */
};

struct batches_ops {
    /* The next pass. The first call begins where the token says, if one was given. */
    int (*begin)(struct batches *b, uint64_t pass, struct err *err);
    /* 1: *ret is set, its memory the source's until the next call. 0: the pass is over,
     * however often it is asked. -1: the
     * error names the sample. BATCH_STOPPED: its samples are not here yet, and `ends` says so. */
    int (*next)(struct batches *b, struct net_batch *ret, struct err *err);
    /* The place after the batch given last, one printable line. */
    int (*token)(struct batches *b, char ret[BATCH_TOKEN_LEN], struct err *err);
    void (*figures)(struct batches *b, struct batch_figures *ret);
    /* The name of a label, which lives as long as the source; NULL. Where labels have no names
     * there is no such function. */
    const char *(*class_name)(const struct batches *b, int label);
    /* How many classes have no sample, and the name of the first; NULL: as above. */
    uint32_t (*empty)(const struct batches *b, const char **ret_first);
    /* What was left out since the last call, newest first: at most `max` of them. NULL: nothing
     * ever is. Reading ahead, they may be of batches that are still to come. */
    uint32_t (*skips)(struct batches *b, struct loader_skip *ret, uint32_t max);
    /* Reads no more ahead; within this time, is nothing read any more? If not, close() waits for
     * as long as the file hangs. NULL: nothing is ever read ahead. */
    bool (*rest)(struct batches *b, uint64_t wait_ns);
    void (*close)(struct batches *b);
};

/*
 * `data`:
 *   DIR                        MODEL_PICTURES: a folder of pictures, a folder a class
 *   DIR                        MODEL_RATINGS: users.dat, movies.dat, ratings.dat as MovieLens has
 *                              them (ratings.list: a part of the ratings, as `split` makes it)
 *   synthetic:SAMPLES,CLASSES  made up: pictures of CLASSES classes, or ratings
 */
int batch_open(struct batches **ret, enum model_data kind, const struct batch_options *o,
               struct err *err);
void batch_close(struct batches *b);
/* What MovieLens says of a user and a movie, as the recommender's ids: `ids[i] + at * width` for
 * each input. `title` and `genres` ("Drama|War") are cut into words where they stand. */
struct rating_fields {
    int32_t user, age, job, movie;
    bool female;
    char *title, *genres;
};
void rating_ids(const struct rating_fields *f, int32_t *const ids[N_MOVIE_IDS], size_t at);
/* The option that `data` came from, for errors. */
static inline const char *batch_option(const struct batch_options *o)
{
    return o->train ? "--data" : "--test_data";
}
/* Makes another rank's token that of the place after `batches` batches of a pass over `samples`
 * samples, which are in the same order. */
int batch_place(const struct batch_options *o, uint64_t samples, uint64_t pass, uint64_t batches,
                char token[BATCH_TOKEN_LEN], struct err *err);
/* Is what is left of the token's pass in another order than the passes after it, which are those of
 * `o`? */
bool batch_reorders(const struct batch_options *o, const char *token);
/* Do ranks have shares of the samples? Else each of several reads all of them. */
bool batch_deals(const struct batch_options *o);
/* Is this key of a sampler's SPEC one of those that the job itself knows: ranks, rank, batch? */
bool batch_is_own_key(const char *key, size_t len);

#endif

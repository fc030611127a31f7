/*
 * Checkpoints: what training goes on from, as folders that other programs can read, too.
 *
 *   SAVE_DIR/pass-00002/                 pass 2 is over
 *   SAVE_DIR/pass-00002-batch-000000017/ 17 batches of pass 2 are done
 *       ___fc_layer_0__.w0 …   a file a parameter: Paddle's header of 16 bytes (version 0, 4 bytes
 *                              a number, how many), then floats
 *       momentum, mean         of all parameters, in their order (mean: with --ema)
 *       state.json             where training is; the model's shape and names of classes; size and
 *                              CRC-32C of each file
 *       done                   written last: CRC-32C of state.json
 *
 * Every file is fsynced before `done` is there, and `done` is there whole (it is renamed to), so
 * that a folder with one is whole, whenever the program or the machine stopped; one that takes the
 * place of a whole one of its name is written beside it (saving.new), and then renamed. It works on
 * a local disk and on a mount where a file becomes visible at fsync. Only rank 0 touches the
 * folder; what it read, it gives to the others.
 */
#ifndef SAMPAN_TRAIN_CHECKPOINT_H
#define SAMPAN_TRAIN_CHECKPOINT_H

#include <stdbool.h>

#include "batch.h"
#include "log.h"
#include "net.h"

/* Of samples that were learned from. */
struct checkpoint_sums {
    uint64_t samples;
    double loss, right;
};

struct checkpoint {
    uint64_t pass;  /* the one to go on in; a whole pass N saved: N + 1 */
    uint64_t batch; /* batches of it that are done */
    uint64_t step;  /* updates so far */
    uint64_t seed;
    char optimizer[16]; /* whose momentum it is */
    double loss, rate;  /* of the last step, for people */
    /* Of the pass so far, by all runs that made a part of it, and of that since the last line of
     * figures, which the next one tells, too. Zeroed also where an older program wrote none. */
    struct checkpoint_sums learned, period;
    uint64_t skipped;            /* samples of the pass that were left out */
    uint64_t period_batches;     /* batches of the period */
    char token[BATCH_TOKEN_LEN]; /* the place in the middle of a pass; "" at its begin */
    uint64_t data;  /* a source's digest: of the samples that the token's numbers stand for; 0: not
                       known */
    char from[600]; /* the folder that it was loaded from */
};

/* What builds the same net again without its data: for predictors. */
struct checkpoint_about {
    struct model_shape shape;
    size_t n_classes;
    char **classes; /* names of labels, in order; n_classes 0: they have none */
    char model[32]; /* what was read has these, too: its name, ... */
    bool mean;      /* ... and whether an average of the weights is there */
};
void checkpoint_about_release(struct checkpoint_about *a);
#define cleanup_checkpoint_about CLEANUP(checkpoint_about_release)

/* Could one be made there, as far as permissions say? So that nobody learns for hours first. */
int checkpoint_may_save(const char *dir, struct err *err);
/* Writes one and removes all but the newest `keep` (0: keeps all). ERR_DENIED, ERR_LIMIT: the
 * folder cannot be written or is full; what was there stays. `about` may be NULL. `ret` (may be
 * NULL): the folder. */
int checkpoint_save(const char *dir, const struct net *n, const struct checkpoint *c,
                    const struct checkpoint_about *about, unsigned keep, char *ret, size_t ret_len,
                    struct err *err);

/*
 * Loads the newest that is whole and of this model. 1: loaded. 0: there is none. Torn ones and
 * those of another model are passed over, each with a line in the log; if only ones of another
 * model are there, that is an error, for beginning anew would in the end remove them. So is one
 * that cannot be read: it may be whole.
 *
 * Another model is also one whose labels have other names than `about` has (NULL: they are not
 * compared, nor where either has none).
 */
int checkpoint_load(const char *dir, struct net *n, const struct checkpoint_about *about,
                    struct checkpoint *ret, struct log *log, struct err *err);
/* The same where somebody names what is to be loaded: one checkpoint's folder, or a folder of them.
 * That nothing can be loaded is an error: ERR_NOT_FOUND if none is there. */
int checkpoint_load_named(const char *path, struct net *n, const struct checkpoint_about *about,
                          struct checkpoint *ret, struct log *log, struct err *err);
/* Is an error of loading one about what is in it (so that the one before it will do), rather than
 * that it cannot be read, or kept, just now? */
bool checkpoint_is_bad(const struct err *why);

/* The newest finished one in a folder of them (the caller's, free). NULL: there is none. */
char *checkpoint_newest(const char *dir);
/* The newest finished one beside `place` that is of the end of a pass before this one (the
 * caller's, free). NULL: there is none. */
char *checkpoint_pass_end(const char *place, uint64_t before);
/* How the net of one checkpoint's folder, or of the newest in a folder of them (the `skip` newest
 * passed over), was built; `*ret_place` is the folder that it was, also where it is torn or was
 * never finished (the caller's, free). NULL: there is none (left): ERR_NOT_FOUND. ERR_USAGE: it was
 * written without. */
int checkpoint_look(const char *path, size_t skip, struct checkpoint_about *ret, char **ret_place,
                    struct err *err);

#endif

/* What the test layers share: parsing, and the frame of a call that is passed on. */
#ifndef SAMPAN_TEST_LAYERS_INTERNAL_H
#define SAMPAN_TEST_LAYERS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "layers.h"

enum layer_op { OP_READ = 1, OP_AHEAD = 2, OP_ALL = 3 };

/* A word up to `stop` or the end; moves *text behind it. False: it does not fit into `size`. */
bool layer_word(const char **text, char stop, char *out, size_t size);
int layer_op_parse(const char *word, enum layer_op *ret, struct err *err);
int layer_number(const char *word, uint64_t *ret, struct err *err);

/* Pass it on. */
void layer_raise(struct source *s, const struct piece *p);
void layer_give_up(struct source *s);

int fault_new(struct source **ret, const char *args, struct source *inner, struct err *err);
int delay_new(struct source **ret, const char *args, struct source *inner, struct err *err);
int count_new(struct source **ret, const char *args, struct source *inner, struct err *err);

#endif

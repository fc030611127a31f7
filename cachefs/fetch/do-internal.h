/* Whole requests within the module: fetch_do() at a priority of choice, and simple builders. */
#ifndef SAMPAN_FETCH_DO_INTERNAL_H
#define SAMPAN_FETCH_DO_INTERNAL_H

#include "engine-internal.h"

/* fetch_do() in the queue of `prio`. */
int whole_wait(struct fetch *f, struct store *s, enum prio prio, fetch_build_fn *build, void *arg,
               size_t max_body, struct http_answer *ret_answer, struct bytes *ret_body,
               struct err *err);

int head_wait(struct fetch *f, struct store *s, enum prio prio, const char *key,
              struct http_answer *ret, struct err *err);

#define SMALL_BODY (1u << 20) /* of answers that only say how it went */

/* Of what is listed in pages: on to the page that `next` names ("": there is none), which takes the
 * place of the token that was asked for. -1: it is that one again. */
int page_turn(const struct store *s, struct bytes *token, struct bytes *next, struct err *err);

#endif

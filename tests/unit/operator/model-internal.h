/* What the files of the cluster in memory share. */
#ifndef SAMPAN_TEST_OPERATOR_MODEL_INTERNAL_H
#define SAMPAN_TEST_OPERATOR_MODEL_INTERNAL_H

#include "model.h"

/* model.c */
const char *model_text_at(const json_t *o, const char *path); /* "a|0|b" */
json_t *model_parsed(const char *text);
json_t *model_meta(json_t *o); /* "metadata", made if need be */
json_t *model_child(json_t *o, const char *key);
void model_put_time(struct model *m, json_t *to, const char *key);

/* model-servers.c */
/* The body, and its status of HTTP; 0: no answer. */
json_t *model_answer(struct model *m, const char *url, int *ret_status);
bool model_server_takes(struct model *m, const struct action *a);
bool model_servers_work(struct model *m);

#endif

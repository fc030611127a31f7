/* The fault of mounts that can be written, which have no stack of sources: a request that kills. */
#include <stdlib.h>
#include <string.h>

#include "layers-internal.h"
#include "mem.h"

struct layer_requests {
    char op[16];
    uint64_t ino;
};

int layers_requests_new(struct layer_requests **ret, const char *spec, struct err *err)
{
    struct layer_requests r = {0};
    const char *at = spec;
    char layer[8] = "", unit[8] = "", ino[24] = "";
    if (!layer_word(&at, '=', layer, sizeof layer) || strcmp(layer, "fault") != 0 ||
        !layer_word(&at, ':', r.op, sizeof r.op) || !layer_word(&at, ':', unit, sizeof unit) ||
        strcmp(unit, "unit") != 0 || !layer_word(&at, ':', ino, sizeof ino) ||
        strcmp(at, "abort") != 0)
        return err_set(err, ERR_USAGE, "layers \"%s\": want fault=REQUEST:unit:INODE:abort", spec);
    if (layer_number(ino, &r.ino, err))
        return err_wrap(err, "layers \"%s\"", spec);
    *ret = xmalloc(sizeof r);
    **ret = r;
    return 0;
}

void layers_requests_before(void *requests, const char *op, uint64_t ino)
{
    const struct layer_requests *r = requests;
    if (r->ino == ino && strcmp(r->op, op) == 0)
        abort();
}

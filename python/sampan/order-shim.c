/* common/order for ctypes: handles and plain arguments, many numbers a call. */
#include <stdlib.h>

#include "order.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT void *sampan_order_open(const char *spec, uint64_t samples, struct err *err)
{
    struct order_spec s;
    struct order *o;
    if (order_spec_parse(&s, spec, err) || order_new(&o, &s, samples, err))
        return NULL;
    return o;
}

EXPORT void *sampan_order_resume(const char *token, uint32_t ranks, uint32_t rank, struct err *err)
{
    struct order_token t;
    struct order *o;
    if (order_token_parse(&t, token, err) ||
        order_resume(&o, &t, ranks ? ranks : t.parts[t.n_parts - 1].ranks, rank, err))
        return NULL;
    return o;
}

EXPORT uint64_t sampan_order_length(const void *order)
{
    return order_length(order);
}

EXPORT void sampan_order_fill(const void *order, uint64_t first, uint64_t n, int64_t *out)
{
    for (uint64_t i = 0; i < n; i++)
        out[i] = (int64_t)order_at(order, first + i);
}

/* `out` has 1600 bytes. */
EXPORT int sampan_order_token(const void *order, uint64_t position, char *out, struct err *err)
{
    struct order_token t;
    if (order_token_of(order, position, &t, err))
        return -1;
    order_token_print(&t, out);
    return 0;
}

EXPORT void sampan_order_close(void *order)
{
    order_free(order);
}

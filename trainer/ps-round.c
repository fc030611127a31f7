/* Rounds of trainers that go in step. */
#include <stdlib.h>

#include "mem.h"
#include "ps-round.h"

void ps_round_init(struct ps_round *r, uint32_t ranks)
{
    *r = (struct ps_round){.ranks = ranks};
    r->from = xcalloc(ranks, sizeof *r->from);
    r->has = xcalloc(ranks, sizeof *r->has);
}

void ps_round_release(struct ps_round *r)
{
    for (uint32_t i = 0; r->from && i < r->ranks; i++)
        bytes_release(&r->from[i]);
    free(r->from);
    free(r->has);
    *r = (struct ps_round){0};
}

int ps_round_join(struct ps_round *r, uint32_t rank, enum ps_kind kind, const void *payload,
                  size_t len, struct err *err)
{
    if (r->came == 0)
        r->kind = kind;
    if (r->kind != kind || r->has[rank])
        return err_set(err, ERR_CORRUPT, "trainer %u is out of step with the others", rank);
    bytes_add(&r->from[rank], payload, len);
    r->has[rank] = true;
    r->came++;
    return 0;
}

void ps_round_leave(struct ps_round *r, uint32_t rank)
{
    bytes_release(&r->from[rank]);
    r->came -= r->has[rank];
    r->has[rank] = false;
}

static int add_floats(const struct ps_round *r, struct bytes *reply, struct err *err)
{
    bytes_add(reply, r->from[0].data, r->from[0].len);
    float *sum = (float *)(void *)reply->data;
    for (uint32_t i = 1; i < r->ranks; i++) {
        if (!r->has[i])
            continue;
        if (r->from[i].len != reply->len || reply->len % sizeof *sum)
            return err_set(err, ERR_CORRUPT, "trainers add up different numbers of numbers");
        const float *one = (const float *)(const void *)r->from[i].data;
        for (size_t k = 0; k < reply->len / sizeof *sum; k++)
            sum[k] += one[k];
    }
    return 0;
}

int ps_round_finish(struct ps_round *r, struct ps_tables *t, struct bytes *reply, struct err *err)
{
    int failed = 0;
    if (r->kind == PS_PUSH)
        failed = ps_tables_push(t, r->from, r->ranks, reply, err);
    else if (r->kind == PS_SUM)
        failed = add_floats(r, reply, err);
    else
        bytes_add(reply, r->from[0].data, r->from[0].len);
    for (uint32_t i = 0; i < r->ranks; i++)
        ps_round_leave(r, i);
    return failed;
}

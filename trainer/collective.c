/* Collectives: nobody else, or Gloo with the store behind it. */
#include <stdio.h>
#include <stdlib.h>

#include "clock.h"
#include "collective.h"
#include "gloo-internal.h"
#include "mem.h"
#include "store.h"

/* After a call that broke, how long to wait for the name of who died. */
#define NAME_NS (3 * NS_PER_S)

/* --- alone ------------------------------------------------------------------------------------ */

static int alone_sum(struct collective *c, float *y, size_t n, struct err *err)
{
    (void)c;
    (void)y;
    (void)n;
    (void)err;
    return 0;
}

static int alone_share(struct collective *c, void *bytes, size_t n, struct err *err)
{
    (void)bytes;
    return alone_sum(c, NULL, n, err);
}

static int alone_nothing(struct collective *c, struct err *err)
{
    return alone_sum(c, NULL, 0, err);
}

static void alone_close(struct collective *c)
{
    free(c);
}

static const struct collective_ops alone = {"none",        alone_sum,     alone_share,
                                            alone_nothing, alone_nothing, alone_close};

/* --- Gloo ------------------------------------------------------------------------------------- */

struct job {
    struct collective base;
    struct store *store;
    struct gloo_mesh *mesh;
    struct err met; /* why meeting failed, by the store */
};

static struct job *job_of(struct collective *c)
{
    return (struct job *)c;
}

static int died(const struct job *j, uint32_t rank, struct err *err)
{
    return err_set(err, ERR_FAILED,
                   "rank %u of %u has died or ended (see its log; start again: training goes on "
                   "from the last checkpoint)",
                   rank, j->base.ranks);
}

/* A call broke: because of a death, if one becomes known. */
static int broke(struct job *j, const char *what, const char *why, struct err *err)
{
    uint32_t rank;
    if (store_dead(j->store, NAME_NS, &rank) == 0)
        return died(j, rank, err);
    return err_set(err, ERR_FAILED,
                   "%s with %u ranks: %s (no rank is known to have died: is one of them stopped, "
                   "or the network cut?)",
                   what, j->base.ranks, why);
}

static int job_sum(struct collective *c, float *y, size_t n, struct err *err)
{
    char why[GLOO_WHY] = "";
    return n && gloo_mesh_sum(job_of(c)->mesh, y, n, why) ? broke(job_of(c), "sum", why, err) : 0;
}

static int job_share(struct collective *c, void *bytes, size_t n, struct err *err)
{
    char why[GLOO_WHY] = "";
    return n && gloo_mesh_share(job_of(c)->mesh, bytes, n, why)
               ? broke(job_of(c), "share", why, err)
               : 0;
}

static int job_barrier(struct collective *c, struct err *err)
{
    char why[GLOO_WHY] = "";
    return gloo_mesh_barrier(job_of(c)->mesh, why) ? broke(job_of(c), "barrier", why, err) : 0;
}

static int job_check(struct collective *c, struct err *err)
{
    uint32_t rank;
    return store_dead(job_of(c)->store, 0, &rank) == 0 ? died(job_of(c), rank, err) : 0;
}

static void job_close(struct collective *c)
{
    struct job *j = job_of(c);
    store_close(j->store, !c->failed); /* first: the others shall know why connections break */
    if (j->mesh)
        gloo_mesh_close(j->mesh);
    free(j);
}

static const struct collective_ops gloo = {"gloo",      job_sum,   job_share,
                                           job_barrier, job_check, job_close};

static int mesh_set(void *arg, const char *key, const void *value, size_t len)
{
    struct job *j = arg;
    return store_set(j->store, key, value, len, &j->met);
}

static int mesh_get(void *arg, const char *key, void **ret, size_t *len)
{
    struct job *j = arg;
    return store_get(j->store, key, ret, len, &j->met);
}

static int meet(struct job *j, const struct rendezvous *r, struct err *err)
{
    char why[GLOO_WHY] = "no memory";
    struct gloo_store store = {mesh_set, mesh_get, j};
    if (store_open(&j->store, r, err))
        return -1;
    const char *address = r->interface[0] ? r->interface : store_address(j->store);
    if (!gloo_mesh_open(&j->mesh, r->rank, r->ranks, address, r->answer_ns / NS_PER_MS, &store,
                        why))
        return 0;
    if (j->met.class == ERR_NONE)
        return err_set(err, ERR_FAILED, "rendezvous: the ranks do not reach each other: %s", why);
    if (err)
        *err = j->met;
    return -1;
}

int collective_open(struct collective **ret, const struct rendezvous *r, struct err *err)
{
    struct job *j = xcalloc(1, sizeof *j);
    j->base = (struct collective){
        .ops = r->ranks == 1 ? &alone : &gloo, .ranks = r->ranks, .rank = r->rank};
    if (r->ranks > 1 && meet(j, r, err)) {
        j->base.failed = true;
        job_close(&j->base);
        return -1;
    }
    *ret = &j->base;
    return 0;
}

void collective_close(struct collective *c)
{
    if (c)
        c->ops->close(c);
}

/*
 * The data path of a volume. Read this function first.
 *
 *      FUSE, control socket, warmup, reading ahead
 *                    |
 *                    v   volume_read(), source_ahead()
 *        +-----------------------+
 *        |  cache                |  a unit is ABSENT, FILLING or READY; one flight a unit;
 *        |  (cache_source)       |  tiers of packs; checks CRC-32C of what it hands out
 *        +-----------------------+
 *                    |   misses only
 *                    v
 *        +-----------------------+
 *        |  [fault] [delay]      |  tests only: layers named by conf.layers
 *        |  [count]              |
 *        +-----------------------+
 *                    |
 *                    v
 *        +-----------------------+
 *        |  peer                 |  asks the machine that owns the sample; passes on what has no
 *        |  (peer_source_new)    |  owner elsewhere, is not there, or comes late
 *        +-----------------------+
 *                    |
 *                    v
 *        +-----------------------+
 *        |  store                |  catalog row -> object, range, ETag; retries, hedges, limits
 *        |  (fetch_source_new)   |  S3, BOS, HTTP, WebHDFS, local files
 *        +-----------------------+
 *
 * Each layer knows its `inner` as cachefs/source.h alone.
 */
#include <stdlib.h>

#include "clock.h"
#include "peer.h"
#include "volume-internal.h"

/* With a machine that says nothing. Tests, whose machines share a processor, have more of it; 0: as
 * peer.h says. */
static uint64_t patience_with_peers(void)
{
    const char *text = getenv("SAMPAN_PEER_PATIENCE_MS");
    long ms = text ? strtol(text, NULL, 10) : 0;
    return ms >= 100 && ms <= 600000 ? (uint64_t)ms * NS_PER_MS : 0;
}

int stack_build(struct volume *v, struct err *err)
{
    struct source *store;
    if (fetch_source_new(&store, v->fetch, v->sources.stores, v->sources.set.n, err))
        return -1;
    const struct peer_conf peers = {.owners = share_owners,
                                    .wants_version = follow_wants,
                                    .on_version = follow_heard,
                                    .arg = v,
                                    .no_hedge = !v->conf.fetch.hedge,
                                    .patience_ns = patience_with_peers(),
                                    .store = fetch_counts(v->fetch),
                                    .ca_file = v->conf.store.ca_file,
                                    .log = v->conf.log};
    if (peer_source_new(&v->peers, &peers, store, err)) {
        store->ops->close(store);
        return -1;
    }
    struct source *below_cache = v->peers;
    if (v->conf.layers && *v->conf.layers) {
        if (!v->conf.build_layers)
            err_set(err, ERR_USAGE,
                    "layers \"%s\": this build has no test layers (build with VARIANT=debug)",
                    v->conf.layers);
        if (!v->conf.build_layers ||
            v->conf.build_layers(&below_cache, v->conf.layers, v->peers, err)) {
            v->peers->ops->close(v->peers);
            store->ops->close(store);
            v->peers = NULL;
            return -1;
        }
    }
    v->top = cache_source(v->cache, below_cache);
    return 0;
}

/* From the top: a layer's close() waits for the reads in it; what is below it is idle then. */
void stack_close(struct volume *v)
{
    for (struct source *s = v->top; s;) {
        struct source *inner = s->inner;
        s->ops->close(s);
        s = inner;
    }
    v->top = v->peers = NULL;
}

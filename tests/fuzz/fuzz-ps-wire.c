/*
 * What trainers send to a parameter server, from the greeting on. Frames are made here, so that
 * what lies in them is met behind the check of their sums: pieces {who and kind (1 byte), length
 * (2), bytes}. A kind that has no sense is the raw head of a frame, which must be refused or say
 * how long it is. The server's tables are small: a shape that would take more is left out.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pserver-internal.h"

#define RANKS      2
#define FLOATS_MAX (1u << 16)

static struct backend *backend;

struct world {
    struct secret secret;
    struct pserver_conf conf;
    struct server server;
    struct shard shard;
    struct peer peers[RANKS];
    struct peer *list[RANKS];
    bool came[RANKS], gone[RANKS], done[RANKS];
};

static void world_init(struct world *w)
{
    *w = (struct world){.conf = {.job = "job", .ranks = RANKS, .secret = &w->secret}};
    w->server = (struct server){.conf = &w->conf, .b = backend, .shards = &w->shard};
    w->shard = (struct shard){.server = &w->server,
                              .port = "1",
                              .peers = w->list,
                              .n_peers = RANKS,
                              .came = w->came,
                              .gone = w->gone,
                              .done = w->done};
    ps_round_init(&w->shard.round, RANKS);
    for (uint32_t i = 0; i < RANKS; i++) {
        w->peers[i] = (struct peer){.fd = -1, .rank = NOBODY};
        w->list[i] = &w->peers[i];
    }
}

static void world_release(struct world *w)
{
    ps_round_release(&w->shard.round);
    ps_tables_free(w->shard.tables);
    for (uint32_t i = 0; i < RANKS; i++) {
        bytes_release(&w->peers[i].out);
        bytes_release(&w->peers[i].hello);
    }
}

static bool is_large(const uint8_t *data, size_t len)
{
    struct ps_shape s;
    double floats = 0;
    for (size_t at = sizeof(struct ps_hello); at + sizeof s <= len; at += sizeof s) {
        memcpy(&s, data + at, sizeof s);
        floats += ((double)s.rows + 1) * s.dim;
    }
    return floats > FLOATS_MAX;
}

static int ask(struct world *w, struct peer *p, enum ps_kind kind, struct ps_in *in,
               struct err *err)
{
    struct ps_tables *t = w->shard.tables;
    struct ps_round *round = &w->shard.round;
    cleanup_bytes struct bytes reply = {0}, one = {0};
    int rc = 0;
    switch (kind) {
    case PS_PULL:
        rc = ps_tables_pull(t, in, &reply, err);
        break;
    case PS_FETCH:
        rc = ps_tables_fetch(t, in, &reply, err);
        break;
    case PS_STORE:
        rc = ps_tables_store(t, in, err);
        break;
    case PS_PUSH:
        if (w->shard.is_async) {
            bytes_add(&one, in->at, in->left);
            rc = ps_tables_push(t, &one, 1, &reply, err);
            break;
        } /* fall through */
    case PS_SUM:
    case PS_SHARE:
        rc = ps_round_join(round, p->rank, kind, in->at, in->left, err);
        if (rc == 0 && round->came == RANKS)
            rc = ps_round_finish(round, t, &reply, err);
        break;
    default:
        break;
    }
    return rc;
}

static int serve(struct world *w, struct peer *p, enum ps_kind kind, const uint8_t *data,
                 size_t len)
{
    struct err err = {0};
    cleanup_bytes struct bytes frame = {0};
    ps_frame(&frame, kind, data, len);
    enum ps_kind got;
    assert(ps_head(frame.data, PS_GREETING_MAX, &got) == (int64_t)len && got == kind);
    assert(ps_check(frame.data, frame.data + PS_HEAD, len) == 0);
    struct ps_in in = {(const unsigned char *)frame.data + PS_HEAD, len, 0};
    int rc = 0;
    if (p->rank != NOBODY)
        rc = ask(w, p, kind, &in, &err);
    else if (kind == PS_HELLO && !is_large(data, len))
        rc = pserver_greet(&w->shard, p, &in, &err);
    else if (kind == PS_PROOF)
        rc = pserver_prove(&w->shard, p, &in, &err);
    assert(rc == 0 || (err.msg[0] && err.class != ERR_BUG));
    bytes_clear(&p->out);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world w;
    enum ps_kind kind;
    if (!backend && backend_cpu(&backend, 1, NULL))
        abort();
    world_init(&w);
    while (size >= 3) {
        size_t len = data[1] | (size_t)data[2] << 8;
        struct peer *p = &w.peers[data[0] >> 7];
        kind = data[0] & 0x1f;
        if (data[0] & 0x40)
            w.secret = (struct secret){(char *)"a token", 7};
        data += 3, size -= 3;
        len = len < size ? len : size;
        if (kind < PS_HELLO || kind >= PS_KINDS) {
            if (len >= PS_HEAD)
                assert(ps_head(data, PS_MAX, &kind) <= (int64_t)PS_MAX);
        } else if (serve(&w, p, kind, data, len)) {
            break; /* it ends the connection, and with it the job */
        }
        data += len, size -= len;
    }
    world_release(&w);
    return 0;
}

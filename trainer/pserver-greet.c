/* Who is let in: trainers of this job, which know its secret where it has one. */
#include <string.h>

#include "pserver-internal.h"

/* Somebody who knows the job's secret, if it has one. */
static int let_in(struct shard *s, struct peer *p, struct ps_in *in, struct err *err)
{
    const struct pserver_conf *conf = s->server->conf;
    struct ps_hello h;
    ps_copy(in, &h, sizeof h);
    const struct ps_shape *shapes = ps_take(in, h.n_tables * sizeof *shapes);
    if (in->bad || in->left || h.n_tables > PS_TABLES || !memchr(h.job, '\0', sizeof h.job))
        return err_set(err, ERR_CORRUPT, "a greeting of no possible kind");
    if (strcmp(h.job, conf->job) != 0)
        return err_set(err, ERR_USAGE, "this server belongs to another job (--comment)");
    if (h.ranks != conf->ranks || h.rank >= h.ranks)
        return err_set(err, ERR_USAGE,
                       "trainer %u of %u: this server waits for %u (--num_gradient_servers)",
                       h.rank, h.ranks, conf->ranks);
    if (s->came[h.rank])
        return err_set(err, ERR_USAGE, "there is a trainer %u already", h.rank);
    p->claims = h.rank;
    bool is_async = h.mode & PS_MODE_ASYNC;
    if (s->tables && is_async != s->is_async)
        return err_set(err, ERR_USAGE, "another --async than the first trainer's");
    if (s->tables ? ps_tables_same(s->tables, h.seed, shapes, h.n_tables, err)
                  : ps_tables_new(&s->tables, s->server->b, h.seed, shapes, h.n_tables, err))
        return -1;
    s->is_async = is_async;
    s->came[h.rank] = true;
    p->rank = h.rank;
    pserver_answer(p, PS_OK, NULL);
    return 0;
}

int pserver_greet(struct shard *s, struct peer *p, struct ps_in *in, struct err *err)
{
    const struct secret *secret = s->server->conf->secret;
    struct ps_in all = *in;
    struct ps_hello h;
    ps_copy(in, &h, sizeof h);
    bool knows = h.mode & PS_MODE_SECRET;
    if (in->bad || p->hello.len)
        return err_set(err, ERR_CORRUPT, "a greeting of no possible kind");
    if (knows != (secret->text != NULL))
        return err_set(err, ERR_USAGE,
                       knows ? "this server has no --ps_token_file, and its trainer has"
                             : "this server wants to be shown a token (--ps_token_file)");
    if (!knows)
        return let_in(s, p, &all, err);
    struct ps_challenge c;
    if (ps_secret_draw(p->number, err))
        return -1;
    memcpy(c.number, p->number, sizeof c.number);
    ps_secret_of_server(secret, h.number, p->number, c.sum);
    bytes_add(&p->hello, all.at, all.left);
    cleanup_bytes struct bytes reply = {0};
    bytes_add(&reply, &c, sizeof c);
    pserver_answer(p, PS_CHALLENGE, &reply);
    return 0;
}

int pserver_prove(struct shard *s, struct peer *p, struct ps_in *in, struct err *err)
{
    uint8_t want[PS_NUMBER], sum[PS_NUMBER];
    ps_copy(in, sum, sizeof sum);
    if (in->bad || in->left || !p->hello.len)
        return err_set(err, ERR_CORRUPT, "a proof of nothing");
    ps_secret_of_trainer(s->server->conf->secret, p->number, p->hello.data, p->hello.len, want);
    if (!ps_secret_same(sum, want))
        return err_set(err, ERR_DENIED, "it does not know the token of this job (--ps_token_file)");
    struct ps_in hello = {(const unsigned char *)p->hello.data, p->hello.len, 0};
    int failed = let_in(s, p, &hello, err);
    bytes_release(&p->hello);
    return failed;
}

/* Many servers as one: who we are to the others, and they to us. */
#define LOG_MODULE "cluster"
#include <errno.h>
#include <sys/random.h>

#include "hash.h"
#include "server-internal.h"

static void token_of(void *arg, struct secret *ret)
{
    struct server *s = arg;
    auth_token_copy(&s->auth, ret);
}

int cluster_start(struct server *s, struct err *err)
{
    unsigned char random[(MEMBERS_INSTANCE - 1) / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return err_sys(err, errno, "random bytes");
    hex_encode(s->instance, random, sizeof random);
    const struct members_conf conf = {.peers = s->conf.peers,
                                      .ordinal = s->conf.ordinal,
                                      .partitions = s->conf.partitions,
                                      .instance = s->instance,
                                      .ca_file = s->conf.ca_file,
                                      .token = token_of,
                                      .arg = s,
                                      .log = s->conf.log};
    return members_open(&s->members, &conf, err);
}

void cluster_stop(struct server *s)
{
    members_close(s->members);
}

void serve_identity(struct request *r, struct answer *a)
{
    const struct server *s = r->server;
    struct json_writer w;
    answer_json(a, &w);
    jw_object(&w, NULL);
    jw_uint(&w, "ordinal", s->conf.ordinal);
    jw_uint(&w, "partitions", s->conf.partitions);
    jw_str(&w, "instance", s->instance);
    jw_str(&w, "program", s->conf.version);
    jw_end(&w);
}

void serve_members(struct request *r, struct answer *a)
{
    struct json_writer w;
    answer_json(a, &w);
    members_write(r->server->members, &w);
}

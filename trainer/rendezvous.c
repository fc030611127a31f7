/* Which rank, of how many, and where they meet. Pure, but for the environment it is given. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "rendezvous.h"

typedef const char *get_fn(const char *name);

static const char *value(get_fn *get, const char *name)
{
    const char *text = get(name);
    return text && *text ? text : NULL;
}

/* The first of two variables that is set, as a number. */
static int number(get_fn *get, const char *name, const char *other, long most, int64_t *ret,
                  struct err *err)
{
    if (!value(get, name))
        name = other;
    const char *text = name ? value(get, name) : NULL;
    if (!text)
        return 0;
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (errno || *end || !isdigit((unsigned char)*text) || n > most)
        return err_set(err, ERR_USAGE, "environment: %s=%s: want a number of at most %ld", name,
                       text, most);
    *ret = n;
    return 0;
}

/* A pod of a PaddleJob has the words of both; those of a launcher that runs in it count. */
static bool by_torchrun(get_fn *get)
{
    return value(get, "TORCHELASTIC_RUN_ID") != NULL;
}

static int64_t count_names(const char *list)
{
    int64_t n = 1;
    for (const char *comma = list; (comma = strchr(comma, ',')); comma++)
        n++;
    return n;
}

static int by_paddle(struct rendezvous *r, get_fn *get, int64_t *rank, int64_t *ranks,
                     struct err *err)
{
    if (number(get, "PADDLE_TRAINER_ID", "PADDLE_GLOBAL_RANK", RENDEZVOUS_MAX_RANKS, rank, err) ||
        number(get, "PADDLE_TRAINERS_NUM", "PADDLE_GLOBAL_SIZE", RENDEZVOUS_MAX_RANKS, ranks, err))
        return -1;
    const char *all = value(get, "PADDLE_TRAINER_ENDPOINTS"), *master = value(get, "PADDLE_MASTER");
    if (all)
        snprintf(r->where, sizeof r->where, "%.*s", (int)strcspn(all, ","), all);
    else if (master)
        snprintf(r->where, sizeof r->where, "%s", master);
    if (all && *ranks >= 0 && count_names(all) != *ranks)
        return err_set(err, ERR_USAGE,
                       "environment: %lld trainers (PADDLE_TRAINERS_NUM), but "
                       "PADDLE_TRAINER_ENDPOINTS names %lld (make them agree)",
                       (long long)*ranks, (long long)count_names(all));
    return 0;
}

static int by_torch(struct rendezvous *r, get_fn *get, int64_t *rank, int64_t *ranks,
                    struct err *err)
{
    int64_t port = 29500;
    if (number(get, "RANK", NULL, RENDEZVOUS_MAX_RANKS, rank, err) ||
        number(get, "WORLD_SIZE", NULL, RENDEZVOUS_MAX_RANKS, ranks, err) ||
        number(get, "MASTER_PORT", NULL, 65534, &port, err))
        return -1;
    const char *address = value(get, "MASTER_ADDR"),
               *agent = value(get, "TORCHELASTIC_USE_AGENT_STORE");
    if (port < 1)
        return err_set(err, ERR_USAGE, "environment: MASTER_PORT=0: want 1 to 65534");
    if (address)
        snprintf(r->where, sizeof r->where, "%s:%d", address,
                 (int)port + (agent && strcmp(agent, "True") == 0));
    return 0;
}

static bool names_several(get_fn *get)
{
    const char *all = value(get, "PADDLE_TRAINER_ENDPOINTS");
    return all && count_names(all) > 1;
}

int rendezvous_find(struct rendezvous *ret, int64_t rank, int64_t ranks, const char *where,
                    get_fn *get, struct err *err)
{
    struct rendezvous r = {.timeout_ns = 300 * NS_PER_S, .answer_ns = 300 * NS_PER_S};
    int64_t env_rank = -1, env_ranks = -1;
    if (!by_torchrun(get) && by_paddle(&r, get, &env_rank, &env_ranks, err))
        return -1;
    if (env_ranks < 0 && by_torch(&r, get, &env_rank, &env_ranks, err))
        return -1;
    if (where && *where)
        snprintf(r.where, sizeof r.where, "%s", where);
    if (ranks < 0 && env_ranks > 1 && rank < 0 && env_rank < 0)
        return err_set(
            err, ERR_USAGE,
            "environment: %lld ranks, but not which one this is (RANK beside WORLD_SIZE, "
            "PADDLE_TRAINER_ID beside PADDLE_TRAINERS_NUM, or --trainer_id)",
            (long long)env_ranks);
    if (ranks < 0 && env_ranks < 0 && ((rank < 0 && env_rank >= 0) || names_several(get)))
        return err_set(err, ERR_USAGE,
                       "environment: this is one rank, but nobody says of how many "
                       "(WORLD_SIZE beside RANK, PADDLE_TRAINERS_NUM beside PADDLE_TRAINER_ID or "
                       "PADDLE_TRAINER_ENDPOINTS, or --num_gradient_servers)");
    ranks = ranks >= 0 ? ranks : env_ranks >= 0 ? env_ranks : 1;
    rank = rank >= 0 ? rank : env_rank >= 0 ? env_rank : 0;
    if (ranks < 1 || ranks > RENDEZVOUS_MAX_RANKS || rank >= ranks)
        return err_set(err, ERR_USAGE,
                       "rank %lld of %lld: want ranks numbered from 0 (--trainer_id, "
                       "--num_gradient_servers, or the environment of the launcher)",
                       (long long)rank, (long long)ranks);
    if (ranks > 1 && !r.where[0])
        return err_set(err, ERR_USAGE,
                       "%lld ranks, but nobody says where they meet (--rendezvous HOST:PORT, "
                       "MASTER_ADDR or PADDLE_TRAINER_ENDPOINTS)",
                       (long long)ranks);
    if (ranks > 1 && !(where && *where) && strncmp(r.where, "etcd://", 7) == 0)
        return err_set(err, ERR_USAGE,
                       "environment: PADDLE_MASTER=%s: etcd is where Paddle's launcher meets, not "
                       "this program (run it under that launcher, in a job without spec.elastic, "
                       "or give --rendezvous HOST:PORT)",
                       r.where);
    r.ranks = (uint32_t)ranks;
    r.rank = (uint32_t)rank;
    *ret = r;
    return 0;
}

int rendezvous_local_rank(get_fn *get)
{
    /* torchrun's first where it is one; else the pod's own last. */
    static const char *const names[] = {"LOCAL_RANK", "PADDLE_LOCAL_RANK", "FLAGS_selected_gpus",
                                        "LOCAL_RANK"};
    for (size_t i = !by_torchrun(get); i < sizeof names / sizeof names[0]; i++) {
        int64_t n = 0;
        if (value(get, names[i]))
            return number(get, names[i], NULL, RENDEZVOUS_MAX_RANKS, &n, NULL) ? 0 : (int)n;
    }
    return 0;
}

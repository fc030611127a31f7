/* Parameter servers: who keeps what, tables and their steps, frames that are none. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mem.h"
#include "net.h"
#include "ps-round.h"
#include "roles.h"

/* --- roles ------------------------------------------------------------------------------------ */

static const char *const *environment;

static const char *get(const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; environment && environment[i]; i++)
        if (strncmp(environment[i], name, len) == 0 && environment[i][len] == '=')
            return environment[i] + len + 1;
    return NULL;
}

static void join(char *out, size_t size, char *const *list, size_t n)
{
    out[0] = '\0';
    for (size_t i = 0; i < n; i++)
        snprintf(out + strlen(out), size - strlen(out), "%s%s", i ? " " : "", list[i]);
}

static const struct {
    const char *const words[8], *const env[5];
    bool server;
    enum role role;
    const char *dense, *sparse, *ports, *address;
    int64_t rank, ranks;
} said[] = {
    {{"--data=x"}, {NULL}, false, ROLE_ALONE, "", "", "", "", -1, -1},
    {{"--pservers=10.0.0.1"}, {NULL}, false, ROLE_ALONE, "", "", "", "", -1, -1},
    {{"--pservers=10.0.0.10,10.0.0.2,10.0.0.3", "--local=0", "--ports_num=2",
      "--ports_num_for_sparse=1"},
     {NULL},
     false,
     ROLE_WORKER,
     "10.0.0.10:7164 10.0.0.10:7165 10.0.0.2:7164 10.0.0.2:7165 10.0.0.3:7164 10.0.0.3:7165",
     "10.0.0.10:7166 10.0.0.2:7166 10.0.0.3:7166",
     "",
     "",
     -1,
     -1},
    {{"--pservers=::1,[::2]", "--local=0"},
     {NULL},
     false,
     ROLE_WORKER,
     "[::1]:7164 [::2]:7164",
     "[::1]:7164 [::2]:7164",
     "",
     "",
     -1,
     -1},
    {{"--port=9", "--ports_num=2", "--ports_num_for_sparse=2", "--address=127.0.0.2"},
     {NULL},
     true,
     ROLE_SERVER,
     "",
     "",
     "9 10 11 12",
     "127.0.0.2",
     -1,
     -1},
    {{"--job_name=worker", "--task_index=1", "--ps_hosts=a:1,b:2", "--worker_hosts=c:1,d:1"},
     {NULL},
     false,
     ROLE_WORKER,
     "a:1 b:2",
     "a:1 b:2",
     "",
     "",
     1,
     2},
    {{"--job_name=ps", "--task_index=1", "--ps_hosts=a:1,b:2", "--worker_hosts=c:1"},
     {NULL},
     false,
     ROLE_SERVER,
     "a:1 b:2",
     "a:1 b:2",
     "2",
     "",
     -1,
     1},
    {{"--data=x"},
     {"TRAINING_ROLE=PSERVER", "PADDLE_PSERVERS_IP_PORT_LIST=a:1,1.2.3.4:36", "PADDLE_PORT=36",
      "POD_IP=1.2.3.4"},
     false,
     ROLE_SERVER,
     "",
     "",
     "36",
     "1.2.3.4",
     -1,
     -1},
    {{"--data=x"},
     {"TRAINING_ROLE=PSERVER", "PADDLE_PSERVERS_IP_PORT_LIST=[fd::1]:7164",
      "PADDLE_PORT=", "POD_IP=fd::1"},
     false,
     ROLE_SERVER,
     "",
     "",
     "7164",
     "fd::1",
     -1,
     -1},
    {{"--data=x"},
     {"TRAINING_ROLE=TRAINER", "PADDLE_PSERVERS_IP_PORT_LIST=a:1,b:1"},
     false,
     ROLE_WORKER,
     "a:1 b:1",
     "a:1 b:1",
     "",
     "",
     -1,
     -1},
    {{"--data=x"},
     {"TRAINING_ROLE=TRAINER", "PADDLE_PSERVERS_IP_PORT_LIST="},
     false,
     ROLE_ALONE,
     "",
     "",
     "",
     "",
     -1,
     -1},
};

Test(roles, who_is_who)
{
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        char *argv[9] = {(char *)"sampan-train"}, text[400];
        int argc = 1;
        struct options o;
        struct conf *conf = NULL;
        struct roles r;
        struct err err = {0};
        for (; argc <= 8 && said[i].words[argc - 1]; argc++)
            argv[argc] = (char *)said[i].words[argc - 1];
        cr_assert_eq(options_read(&o, &conf, argc, argv, &err), 0, "%s", err.msg);
        environment = said[i].env;
        cr_assert_eq(roles_find(&r, &o, said[i].server, get, &err), 0, "row %zu: %s", i, err.msg);
        cr_expect_eq(r.role, said[i].role, "row %zu", i);
        join(text, sizeof text, r.dense, r.n_dense);
        cr_expect_str_eq(text, said[i].dense, "row %zu", i);
        join(text, sizeof text, r.sparse, r.n_sparse);
        cr_expect_str_eq(text, said[i].sparse, "row %zu", i);
        join(text, sizeof text, r.ports, r.n_ports);
        cr_expect_str_eq(text, said[i].ports, "row %zu", i);
        cr_expect_str_eq(r.address, said[i].address, "row %zu", i);
        cr_expect(r.rank == said[i].rank && r.ranks == said[i].ranks, "row %zu", i);
        roles_release(&r);
        conf_free(conf);
    }
}

Test(roles, refused)
{
    static const struct {
        const char *const words[5];
        bool server;
        const char *want;
    } rows[] = {
        {{"--job_name=chief"}, false, "--job_name: chief: want ps or worker"},
        {{"--job_name=ps"}, false, "goes with --ps_hosts and --worker_hosts"},
        {{"--job_name=ps", "--ps_hosts=a", "--worker_hosts=b:1"},
         false,
         "--ps_hosts: a: want HOST"},
        {{"--job_name=worker", "--ps_hosts=a:1", "--worker_hosts=b:1", "--task_index=1"},
         false,
         "--task_index: 1: there are 1 of --worker_hosts"},
        {{"--job_name=worker", "--ps_hosts=a:1", "--worker_hosts=b:1"}, true, "is no server"},
        {{"--job_name=worker", "--ps_hosts=a:65536", "--worker_hosts=b:1"},
         false,
         "a:65536: want HOST"},
        {{"--job_name=worker", "--ps_hosts=[]:1", "--worker_hosts=b:1"}, false, "[]:1: want HOST"},
        {{"--job_name=worker", "--ps_hosts=a:1", "--worker_hosts=b:1,,c:1"},
         false,
         "--worker_hosts: : want HOST"},
        {{"--ps_hosts=a:1", "--worker_hosts=b:1", "--task_index=0"},
         false,
         "want --job_name ps or worker"},
        {{"--port=65535", "--ports_num=2"}, true, "ports end at 65535"},
        {{"--local=0", "--pservers=a", "--port=65535", "--ports_num_for_sparse=1"},
         false,
         "ports end at 65535"},
        {{"--local=0", "--pservers=a,,b"}, false, "--pservers: a,,b: want HOST,HOST"},
        {{"--local=0", "--pservers=10.0.0.1:7164"}, false, "10.0.0.1:7164: want HOST,HOST"},
        {{"--local=0", "--pservers=[::1]:7164"}, false, "[::1]:7164: want HOST,HOST"},
        {{"--local=0", "--pservers=a,b,a"}, false, "--pservers: a is named twice"},
        {{"--job_name=ps", "--ps_hosts=aa:1,a:1,aa:1", "--worker_hosts=b:1"},
         false,
         "--ps_hosts: aa:1 is named twice"},
        {{"--job_name=ps", "--ps_hosts=a:1", "--worker_hosts=b:1,b:1"},
         false,
         "--worker_hosts: b:1 is named twice"},
        {{"--local=0", "--pservers="}, false, "--local=0: nobody says where"},
        {{"--local=0"}, false, "--local=0: nobody says where"},
    };
    environment = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *argv[6] = {(char *)"sampan-train"};
        int argc = 1;
        struct options o;
        struct conf *conf = NULL;
        struct roles r;
        struct err err = {0};
        for (; argc <= 5 && rows[i].words[argc - 1]; argc++)
            argv[argc] = (char *)rows[i].words[argc - 1];
        cr_assert_eq(options_read(&o, &conf, argc, argv, &err), 0, "%s", err.msg);
        cr_expect_eq(roles_find(&r, &o, rows[i].server, get, &err), -1, "row %zu", i);
        cr_expect(strstr(err.msg, rows[i].want), "row %zu: %s", i, err.msg);
        conf_free(conf);
    }
}

/* Nobody learns alone by mistake, and nobody serves whom no trainer finds. */
Test(roles, environment_refused)
{
    static const struct {
        const char *env[5];
        const char *want;
    } rows[] = {
        {{"TRAINING_ROLE=trainer", "PADDLE_PSERVERS_IP_PORT_LIST=a:1"},
         "environment: TRAINING_ROLE=trainer: want PSERVER or TRAINER"},
        {{"PADDLE_PSERVERS_IP_PORT_LIST=a:1"},
         "environment: TRAINING_ROLE is not set: want PSERVER"},
        {{"TRAINING_ROLE=PSERVER", "PADDLE_PSERVERS_IP_PORT_LIST=a:1", "PADDLE_PORT=abc"},
         "environment: PADDLE_PORT=abc: want a port"},
        {{"TRAINING_ROLE=PSERVER", "PADDLE_PSERVERS_IP_PORT_LIST="},
         "environment: TRAINING_ROLE=PSERVER, but PADDLE_PSERVERS_IP_PORT_LIST is not set"},
        {{"TRAINING_ROLE=HETER"}, "environment: TRAINING_ROLE=HETER: want PSERVER or TRAINER"},
        {{"TRAINING_ROLE=PSERVER", "PADDLE_PSERVERS_IP_PORT_LIST=a:1,b:7164", "POD_IP=a"},
         "environment: POD_IP=a with port 7164 is none of PADDLE_PSERVERS_IP_PORT_LIST=a:1,b"},
        {{"TRAINING_ROLE=PSERVER", "PADDLE_PSERVERS_IP_PORT_LIST=a:1,b"},
         "PADDLE_PSERVERS_IP_PORT_LIST: b: want HOST:PORT"},
    };
    const struct options o = {.local = 1};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct roles r;
        struct err err = {0};
        environment = rows[i].env;
        cr_expect_eq(roles_find(&r, &o, false, get, &err), -1, "row %zu", i);
        cr_expect(strstr(err.msg, rows[i].want), "row %zu: %s", i, err.msg);
    }
}

/* --- frames ----------------------------------------------------------------------------------- */

Test(wire, heads)
{
    cleanup_bytes struct bytes good = {0};
    ps_frame(&good, PS_SUM, "12345678", 8);
    enum ps_kind kind;
    cr_assert_eq(good.len, PS_HEAD + 8);
    cr_expect_eq(ps_head(good.data, 8, &kind), 8);
    cr_expect_eq(kind, PS_SUM);
    cr_expect_eq(ps_check(good.data, good.data + PS_HEAD, 8), 0);
    cr_expect_eq(ps_head(good.data, 7, &kind), -1, "longer than allowed");
    for (size_t at = 0; at < 8; at++) { /* magic, kind (in its high byte), the empty field */
        if (at == 4)
            continue;
        char bad[PS_HEAD];
        memcpy(bad, good.data, sizeof bad);
        bad[at] ^= 0x40;
        cr_expect_eq(ps_head(bad, 8, &kind), -1, "byte %zu", at);
    }
    good.data[PS_HEAD] ^= 1;
    cr_expect_eq(ps_check(good.data, good.data + PS_HEAD, 8), -1);
    cr_expect_eq(ps_head("GET / HTTP/1.1\r\n", PS_MAX, &kind), -1);
}

/* --- rounds ----------------------------------------------------------------------------------- */

static void join_with(struct ps_round *r, uint32_t rank, float x)
{
    float two[] = {x, 10 * x};
    struct err err = {0};
    cr_assert_eq(ps_round_join(r, rank, PS_SUM, two, sizeof two, &err), 0, "%s", err.msg);
}

Test(rounds, add_up_those_that_came)
{
    struct ps_round r;
    cleanup_bytes struct bytes reply = {0};
    struct err err = {0};
    ps_round_init(&r, 3);
    join_with(&r, 2, 4);
    join_with(&r, 0, 1);
    cr_expect_eq(ps_round_join(&r, 1, PS_SHARE, "", 0, &err), -1, "another kind");
    cr_expect(strstr(err.msg, "trainer 1 is out of step"), "%s", err.msg);
    cr_expect_eq(ps_round_join(&r, 0, PS_SUM, "", 0, &err), -1, "twice");
    join_with(&r, 1, 2);
    cr_expect_eq(r.came, 3);
    ps_round_leave(&r, 2); /* it died: what it sent is not counted */
    ps_round_leave(&r, 2);
    cr_expect_eq(r.came, 2);
    cr_assert_eq(ps_round_finish(&r, NULL, &reply, NULL), 0);
    const float *sum = (const float *)(const void *)reply.data;
    cr_expect(reply.len == 2 * sizeof *sum && sum[0] == 3 && sum[1] == 30);

    bytes_clear(&reply); /* the next round is a new one, of any kind */
    cr_expect_eq(r.came, 0);
    cr_assert_eq(ps_round_join(&r, 1, PS_SHARE, "other", 5, NULL), 0);
    cr_assert_eq(ps_round_join(&r, 0, PS_SHARE, "first", 5, NULL), 0);
    cr_assert_eq(ps_round_finish(&r, NULL, &reply, NULL), 0);
    cr_expect(reply.len == 5 && memcmp(reply.data, "first", 5) == 0);

    bytes_clear(&reply);
    join_with(&r, 0, 1);
    cr_assert_eq(ps_round_join(&r, 1, PS_SUM, "four", 4, NULL), 0);
    cr_expect_eq(ps_round_finish(&r, NULL, &reply, &err), -1);
    cr_expect(strstr(err.msg, "different numbers of numbers"), "%s", err.msg);
    ps_round_release(&r);
}

/* --- tables ----------------------------------------------------------------------------------- */

#define ROWS 6
#define DIM  3

static struct ps_shape shape_of(const char *name, uint32_t kind, uint64_t rows, uint32_t dim)
{
    struct ps_shape s = {
        .rows = rows, .stride = 1, .dim = dim, .kind = kind, .first = 0.5f, .drawn = 1};
    snprintf(s.name, sizeof s.name, "%s", name);
    return s;
}

static struct ps_in in_of(const struct bytes *b)
{
    return (struct ps_in){(const unsigned char *)b->data, b->len, 0};
}

/* What tables learn by in step `step`: rates change. */
static struct update update_at(uint32_t step, float trust)
{
    return (struct update){
        .rate = 0.1f / (float)(1 + step % 3), .momentum = 0.9f, .decay = 0.01f, .trust = trust};
}

/* A trainer's step: `row` of table 0 has gradient `g` in all places, table 1 (dense) has 2 g. */
static void pushed(struct bytes *out, uint64_t step, float trust, uint32_t row, float g, float loss)
{
    struct update u = update_at((uint32_t)step, trust);
    struct ps_push head = {.step = step,
                           .rate = u.rate,
                           .momentum = u.momentum,
                           .decay = u.decay,
                           .trust = u.trust,
                           .sums = {loss, 1, 2}};
    uint32_t rows[] = {0, 1, row}, dense[] = {1, 1, 0};
    float grads[DIM] = {g, g, g}, twice[2] = {2 * g, 2 * g};
    bytes_add(out, &head, sizeof head);
    bytes_add(out, rows, sizeof rows);
    bytes_add(out, grads, sizeof grads);
    bytes_add(out, dense, sizeof dense);
    bytes_add(out, twice, sizeof twice);
}

static void push(struct ps_tables *t, uint64_t step, float trust, const uint32_t rows[2],
                 const float g[2])
{
    struct bytes two[2] = {{0}}, reply = {0};
    struct err err = {0};
    for (int i = 0; i < 2; i++)
        pushed(&two[i], step, trust, rows[i], g[i], 1);
    cr_assert_eq(ps_tables_push(t, two, 2, &reply, &err), 0, "%s", err.msg);
    cr_assert_eq(reply.len, 3 * sizeof(float));
    cr_expect_eq(((float *)(void *)reply.data)[SUM_COUNT], 4);
    for (int i = 0; i < 2; i++)
        bytes_release(&two[i]);
    bytes_release(&reply);
}

static void whole(struct ps_tables *t, uint32_t table, enum ps_which which, uint64_t rows,
                  size_t floats, float *out)
{
    struct ps_part part = {table, which, 0, rows};
    cleanup_bytes struct bytes reply = {0};
    struct ps_in in = {(const unsigned char *)&part, sizeof part, 0};
    cr_assert_eq(ps_tables_fetch(t, &in, &reply, NULL), 0);
    cr_assert_eq(reply.len, floats * sizeof *out);
    memcpy(out, reply.data, reply.len);
}

#define STEPS 1000 /* so many that the momentum of a row that rests comes to nothing */

/* To the bit, whether a row is looked at now and then or at the end alone. */
static void learns_as_one_process(float trust, uint32_t looks)
{
    struct backend *b;
    struct ps_tables *t;
    struct ps_shape shapes[] = {shape_of("rows", PARAM_ROWS, ROWS, DIM),
                                shape_of("dense", PARAM_WEIGHT, 1, 2)};
    float w[ROWS * DIM], v[ROWS * DIM] = {0}, g[ROWS * DIM], dw[2], dv[2] = {0}, dg[2];
    float got[ROWS * DIM], got_v[ROWS * DIM];
    cr_assert_eq(backend_cpu(&b, 1, NULL), 0);
    cr_assert_eq(ps_tables_new(&t, b, 7, shapes, 2, NULL), 0);
    net_draw("rows", 7, true, 0.5f, 0, ROWS * DIM, w);
    net_draw("dense", 7, true, 0.5f, 0, 2, dw);
    for (uint32_t step = 0; step < STEPS; step++) {
        /* Row 3 once, row 4 in its middle, row 5 never; the others often. */
        uint32_t rows[2] = {step == 0 ? 3 : step == STEPS / 2 ? 4 : step * 5 % 3, step % 2};
        float grads[2] = {0.5f - (float)(step % 11) / 10, -0.25f};
        push(t, step, trust, rows, grads);
        memset(g, 0, sizeof g);
        for (int i = 0; i < 2; i++)
            for (int k = 0; k < DIM; k++)
                g[rows[i] * DIM + (uint32_t)k] += grads[i];
        dg[0] = dg[1] = 2 * grads[0] + 2 * grads[1];
        struct update u = update_at(step, trust);
        net_update_one(b, PARAM_ROWS, w, g, v, ROWS * DIM, &u, 4);
        net_update_one(b, PARAM_WEIGHT, dw, dg, dv, 2, &u, 4);
        if (step % looks == looks - 1)
            whole(t, 0, PS_WEIGHTS, ROWS, ROWS * DIM, got);
    }
    whole(t, 0, PS_WEIGHTS, ROWS, ROWS * DIM, got);
    whole(t, 0, PS_VELOCITIES, ROWS, ROWS * DIM, got_v);
    for (int i = 0; i < ROWS * DIM; i++) {
        cr_expect(got[i] == w[i], "weight %d: %a, want %a", i, got[i], w[i]);
        cr_expect(got_v[i] == v[i] || fabsf(got_v[i] - v[i]) < 1e-30f, "velocity %d: %a, want %a",
                  i, got_v[i], v[i]);
    }
    cr_expect_eq(got_v[3 * DIM], 0, "row 3 has come to rest");
    whole(t, 1, PS_WEIGHTS, 1, 2, got);
    cr_expect(got[0] == dw[0] && got[1] == dw[1], "dense parameters");
    ps_tables_free(t);
    backend_close(b);
}

/* What servers hold after some steps is what a process that updates all rows each step has. */
Test(tables, steps_are_those_of_one_process)
{
    learns_as_one_process(0, STEPS);
    learns_as_one_process(0, 7);
}

Test(tables, steps_of_lars_are_those_of_one_process)
{
    learns_as_one_process(0.001f, STEPS);
    learns_as_one_process(0.001f, 7);
}

Test(tables, a_loss_that_is_no_number_changes_nothing)
{
    struct backend *b;
    struct ps_tables *t;
    struct ps_shape shapes[] = {shape_of("rows", PARAM_ROWS, ROWS, DIM),
                                shape_of("dense", PARAM_PLAIN, 1, 2)};
    float before[ROWS * DIM], after[ROWS * DIM];
    struct bytes two[2] = {{0}}, reply = {0};
    cr_assert_eq(backend_cpu(&b, 1, NULL), 0);
    cr_assert_eq(ps_tables_new(&t, b, 7, shapes, 2, NULL), 0);
    whole(t, 0, PS_WEIGHTS, ROWS, ROWS * DIM, before);
    pushed(&two[0], 0, 0, 1, 1, 1);
    pushed(&two[1], 0, 0, 1, 1, NAN);
    cr_expect_eq(ps_tables_push(t, two, 2, &reply, NULL), 0);
    cr_expect(isnan(((float *)(void *)reply.data)[SUM_LOSS]));
    whole(t, 0, PS_WEIGHTS, ROWS, ROWS * DIM, after);
    cr_expect_eq(memcmp(before, after, sizeof after), 0);
    for (int i = 0; i < 2; i++)
        bytes_release(&two[i]);
    bytes_release(&reply);
    ps_tables_free(t);
    backend_close(b);
}

/* Rows of one table on three servers hold what they would on one. */
Test(tables, rows_are_drawn_wherever_they_are)
{
    struct backend *b;
    float want[ROWS * DIM], got[ROWS * DIM];
    net_draw("rows", 7, true, 0.5f, 0, ROWS * DIM, want);
    cr_assert_eq(backend_cpu(&b, 1, NULL), 0);
    for (uint64_t k = 0; k < 3; k++) {
        struct ps_tables *t;
        struct ps_shape s = shape_of("rows", PARAM_ROWS, ROWS / 3, DIM);
        s.offset = k;
        s.stride = 3;
        cr_assert_eq(ps_tables_new(&t, b, 7, &s, 1, NULL), 0);
        whole(t, 0, PS_WEIGHTS, ROWS / 3, ROWS / 3 * DIM, got);
        for (uint64_t row = 0; row < ROWS / 3; row++)
            cr_expect_eq(memcmp(got + row * DIM, want + (row * 3 + k) * DIM, DIM * sizeof *got), 0,
                         "server %d row %d", (int)k, (int)row);
        ps_tables_free(t);
    }
    backend_close(b);
}

Test(tables, refused)
{
    struct backend *b;
    struct ps_tables *t;
    struct ps_shape good = shape_of("rows", PARAM_ROWS, ROWS, DIM), shapes[6];
    struct err err = {0};
    cr_assert_eq(backend_cpu(&b, 1, NULL), 0);
    for (int i = 0; i < 6; i++)
        shapes[i] = good;
    shapes[0].dim = 0;
    shapes[1].rows = (uint64_t)UINT32_MAX + 1;
    shapes[2].kind = 99;
    shapes[3].stride = 0;
    memset(shapes[4].name, 'x', sizeof shapes[4].name);
    shapes[5].rows = UINT32_MAX; /* more than any memory */
    shapes[5].dim = 1 << 20;
    for (int i = 0; i < 6; i++)
        cr_expect_eq(ps_tables_new(&t, b, 7, &shapes[i], 1, &err), -1, "row %d", i);
    cr_expect(strstr(err.msg, "this machine has"), "%s", err.msg);
    static struct ps_shape wide[PS_TABLES]; /* without a row, and each a GiB of room */
    for (size_t i = 0; i < PS_TABLES; i++)
        wide[i] = shape_of("wide", PARAM_ROWS, 0, 1u << 28);
    err = (struct err){0};
    cr_expect_eq(ps_tables_new(&t, b, 7, wide, PS_TABLES, &err), -1);
    cr_expect(strstr(err.msg, "this machine has"), "%s", err.msg);
    cr_assert_eq(ps_tables_new(&t, b, 7, &good, 1, NULL), 0);
    struct ps_shape other = good;
    other.rows++;
    cr_expect_eq(ps_tables_same(t, 7, &good, 1, &err), 0);
    cr_expect_eq(ps_tables_same(t, 8, &good, 1, &err), -1);
    cr_expect(strstr(err.msg, "--seed is 8, and 7 on the first trainer"), "%s", err.msg);
    cr_expect_eq(ps_tables_same(t, 7, &good, 0, &err), -1);
    cr_expect(strstr(err.msg, "0 tables for this server, and 1 on the first trainer"), "%s",
              err.msg);
    cr_expect(strstr(err.msg, "servers in the same order on all trainers"), "%s", err.msg);
    cr_expect_eq(ps_tables_same(t, 7, &other, 1, &err), -1);
    cr_expect(strstr(err.msg, "table rows of 7 x 3 numbers is not the first trainer's, which has "
                              "rows of 6 x 3 for this server"),
              "%s", err.msg);
    static const struct {
        uint32_t words[4];
        size_t n;
    } asked[] = {
        {{1, 1, 0}, 3}, {{0, 1, ROWS}, 3}, {{0, 3, 0}, 3}, {{0}, 1}, {{0, UINT32_MAX, 0}, 3}};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        cleanup_bytes struct bytes question = {0}, reply = {0};
        bytes_add(&question, asked[i].words, asked[i].n * sizeof asked[i].words[0]);
        struct ps_in in = in_of(&question);
        cr_expect_eq(ps_tables_pull(t, &in, &reply, &err), -1, "row %zu", i);
    }
    struct ps_part parts[] = {
        {1, 0, 0, 1}, {0, 2, 0, 1}, {0, 0, ROWS + 1, 0}, {0, 0, 1, ROWS}, {0, 0, 1, UINT64_MAX}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        cleanup_bytes struct bytes reply = {0};
        struct ps_in in = {(const unsigned char *)&parts[i], sizeof parts[i], 0}, same = in;
        cr_expect_eq(ps_tables_fetch(t, &in, &reply, &err), -1, "row %zu", i);
        cr_expect_eq(ps_tables_store(t, &same, &err), -1, "row %zu", i);
    }
    ps_tables_free(t);
    backend_close(b);
}

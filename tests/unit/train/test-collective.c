/* Ranks: where they meet, sums, deaths by name. Each rank is a process. */
#include <criterion/criterion.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "address.h"
#include "clock.h"
#include "collective.h"
#include "mem.h"
#include "store-internal.h"

/* --- where ------------------------------------------------------------------------------------ */

static const char *const *environment; /* "NAME=VALUE"…, NULL */

static const char *get(const char *name)
{
    size_t n = strlen(name);
    for (const char *const *e = environment; *e; e++)
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
            return *e + n + 1;
    return NULL;
}

Test(rendezvous, environment_of_launchers)
{
    static const struct {
        const char *env[10];
        int64_t rank, ranks;
        const char *where;
        const char *want; /* "RANK/RANKS WHERE", or a part of the error */
    } rows[] = {
        {{NULL}, -1, -1, NULL, "0/1 "},
        {{"PADDLE_TRAINER_ID=1", "PADDLE_TRAINERS_NUM=2",
          "PADDLE_TRAINER_ENDPOINTS=10.0.0.1:6000,10.0.0.2:6000", "PADDLE_MASTER=10.0.0.1:7000"},
         -1,
         -1,
         NULL,
         "1/2 10.0.0.1:6000"},
        {{"PADDLE_GLOBAL_RANK=3", "PADDLE_GLOBAL_SIZE=4", "PADDLE_MASTER=m:7000"},
         -1,
         -1,
         NULL,
         "3/4 m:7000"},
        {{"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=m", "MASTER_PORT=29400"},
         -1,
         -1,
         NULL,
         "1/2 m:29400"},
        {{"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=m", "MASTER_PORT=29400",
          "TORCHELASTIC_USE_AGENT_STORE=True"},
         -1,
         -1,
         NULL,
         "1/2 m:29401"},
        /* A pod of a PaddleJob, 1 of 2, and torchrun or Paddle's launcher in it, 8 ranks each. */
        {{"PADDLE_TRAINER_ID=1", "PADDLE_TRAINERS_NUM=2",
          "PADDLE_TRAINER_ENDPOINTS=10.0.0.1:6000,10.0.0.2:6000", "RANK=11", "WORLD_SIZE=16",
          "MASTER_ADDR=m", "MASTER_PORT=29400", "TORCHELASTIC_RUN_ID=none"},
         -1,
         -1,
         NULL,
         "11/16 m:29400"},
        {{"PADDLE_TRAINER_ID=11", "PADDLE_TRAINERS_NUM=16",
          "PADDLE_TRAINER_ENDPOINTS=10.0.0.1:6070,b:1,c:1,d:1,e:1,f:1,g:1,h:1,i:1,j:1,k:1,l:1,m:1,"
          "n:1,o:1,p:1",
          "RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=m", "MASTER_PORT=29400"},
         -1,
         -1,
         NULL,
         "11/16 10.0.0.1:6070"},
        {{"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=m"}, 0, 3, "n:1", "0/3 n:1"},
        {{"RANK=2", "WORLD_SIZE=2", "MASTER_ADDR=m"}, -1, -1, NULL, "rank 2 of 2"},
        {{"RANK=0", "MASTER_ADDR=m"}, -1, -1, NULL, "environment: this is one rank, but"},
        {{"PADDLE_TRAINER_ID=0", "PADDLE_TRAINERS_NUM=3", "PADDLE_TRAINER_ENDPOINTS=a:1,b:1"},
         -1,
         -1,
         NULL,
         "environment: 3 trainers (PADDLE_TRAINERS_NUM), but PADDLE_TRAINER_ENDPOINTS names 2"},
        {{"PADDLE_TRAINER_ID=0", "PADDLE_TRAINERS_NUM=2", "PADDLE_MASTER=etcd://m:2379"},
         -1,
         -1,
         NULL,
         "etcd is where Paddle's launcher meets"},
        {{"PADDLE_TRAINER_ID=0"}, -1, -1, NULL, "PADDLE_TRAINERS_NUM beside PADDLE_TRAINER_ID"},
        {{"PADDLE_TRAINER_ENDPOINTS=a:1,b:1"}, 0, -1, NULL, "nobody says of how many"},
        {{"PADDLE_TRAINER_ENDPOINTS=a:1"}, -1, -1, NULL, "0/1 a:1"},
        {{"PADDLE_TRAINER_ID=0"}, -1, 1, NULL, "0/1 "},
        {{"RANK=x", "WORLD_SIZE=2"}, -1, -1, NULL, "RANK=x: want a number"},
        {{"RANK=0", "WORLD_SIZE=2"}, -1, -1, NULL, "nobody says where they meet"},
        {{"MASTER_PORT=99999", "RANK=0", "WORLD_SIZE=2"}, -1, -1, NULL, "MASTER_PORT=99999"},
        {{"MASTER_PORT=29500x", "RANK=0", "WORLD_SIZE=2"},
         -1,
         -1,
         NULL,
         "MASTER_PORT=29500x: want"},
        {{"MASTER_PORT=0", "RANK=0", "WORLD_SIZE=2"}, -1, -1, NULL, "MASTER_PORT=0: want 1 to"},
        {{NULL}, -1, 5000, NULL, "rank 0 of 5000"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct rendezvous r;
        struct err err = {0};
        char got[1200];
        environment = rows[i].env;
        if (rendezvous_find(&r, rows[i].rank, rows[i].ranks, rows[i].where, get, &err))
            snprintf(got, sizeof got, "%s", err.msg);
        else
            snprintf(got, sizeof got, "%u/%u %s", r.rank, r.ranks, r.where);
        cr_expect(strstr(got, rows[i].want) == got || (err.class && strstr(got, rows[i].want)),
                  "row %zu: %s, want %s", i, got, rows[i].want);
    }
}

Test(rendezvous, a_rank_of_its_host)
{
    static const struct {
        const char *env[4];
        int want;
    } rows[] = {
        {{NULL}, 0},
        {{"LOCAL_RANK=3"}, 3},
        {{"FLAGS_selected_gpus=5"}, 5},
        {{"LOCAL_RANK=0", "PADDLE_LOCAL_RANK=3"}, 3}, /* the pod's, and the launcher's in it */
        {{"LOCAL_RANK=3", "PADDLE_LOCAL_RANK=0", "TORCHELASTIC_RUN_ID=none"}, 3},
        {{"LOCAL_RANK=0", "FLAGS_selected_gpus=3"}, 3},
        {{"LOCAL_RANK=x"}, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        environment = rows[i].env;
        cr_expect_eq(rendezvous_local_rank(get), rows[i].want, "row %zu", i);
    }
}

Test(store, frames)
{
    struct bytes b = {0};
    struct store_frame f;
    store_frame_add(&b, STORE_SET, 7, "key", 3, "value", 5);
    for (size_t n = 0; n < b.len; n++)
        cr_expect_eq(store_frame_parse(b.data, n, &f), 0, "%zu bytes are no frame", n);
    cr_assert_eq(store_frame_parse(b.data, b.len, &f), (long)b.len);
    cr_expect_eq(f.rank, 7);
    cr_expect(f.key_len == 3 && memcmp(f.key, "key", 3) == 0);
    cr_expect(f.value_len == 5 && memcmp(f.value, "value", 5) == 0);
    b.data[7] = 1; /* a key of 64 KiB */
    cr_expect_eq(store_frame_parse(b.data, b.len, &f), -1);
    b.data[7] = 0;
    b.data[0] = 99;
    cr_expect_eq(store_frame_parse(b.data, b.len, &f), -1);
    bytes_release(&b);
}

/* --- together --------------------------------------------------------------------------------- */

typedef int rank_fn(struct collective *c, struct err *err);
static atomic_int asked; /* to stop; of each rank its own */
static uint64_t patience_ns = 300 * NS_PER_S;

/* Runs `fn` as each of `ranks` processes; their exit codes, and what they wrote. */
static void run(uint32_t ranks, rank_fn *fn, int *codes, char (*out)[1200])
{
    char dir[] = "/tmp/sampan-unit-XXXXXX", place[64];
    cr_assert(mkdtemp(dir));
    snprintf(place, sizeof place, "file://%s/place", dir);
    pid_t pids[8];
    int ends[8][2];
    for (uint32_t i = 0; i < ranks; i++) {
        cr_assert_eq(pipe(ends[i]), 0);
        pids[i] = fork();
        if (pids[i] == 0) {
            struct rendezvous r = {
                .ranks = ranks, .rank = i, .timeout_ns = 300 * NS_PER_S, .answer_ns = patience_ns};
            struct collective *c = NULL;
            struct err err = {0};
            signal(SIGPIPE, SIG_IGN);
            snprintf(r.where, sizeof r.where, "%s", place);
            int code = collective_open(&c, &r, &asked, &err) ? 9 : fn(c, &err);
            if (c)
                c->failed = code != 0;
            collective_close(c);
            (void)!write(ends[i][1], err.msg, strlen(err.msg));
            _exit(code);
        }
    }
    for (uint32_t i = 0; i < ranks; i++) {
        int status;
        close(ends[i][1]);
        ssize_t n = read(ends[i][0], out[i], 1199);
        out[i][n > 0 ? n : 0] = '\0';
        close(ends[i][0]);
        waitpid(pids[i], &status, 0);
        codes[i] = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
    char *file = place + 7;
    unlink(file);
    rmdir(dir);
}

static int sums(struct collective *c, struct err *err)
{
    enum { N = 100003 };
    float *y = xmalloc(N * sizeof *y);
    char text[8] = "none";
    for (size_t i = 0; i < N; i++)
        y[i] = (float)(i % 1000) + (float)c->rank;
    if (c->rank == 0)
        snprintf(text, sizeof text, "shared");
    int failed = c->ops->sum(c, y, N, err) || c->ops->share(c, text, sizeof text, err) ||
                 c->ops->barrier(c, err) || c->ops->check(c, err);
    float all = (float)c->ranks, extra = all * (all - 1) / 2;
    for (size_t i = 0; i < N && !failed; i++)
        failed = y[i] != all * (float)(i % 1000) + extra;
    failed |= strcmp(text, "shared") != 0;
    free(y);
    return failed;
}

Test(collective, sums_and_shares)
{
    for (uint32_t ranks = 2; ranks <= 4; ranks++) {
        int codes[8];
        char out[8][1200];
        run(ranks, sums, codes, out);
        for (uint32_t i = 0; i < ranks; i++)
            cr_expect_eq(codes[i], 0, "rank %u of %u: %d %s", i, ranks, codes[i], out[i]);
    }
}

/* Whoever is `victim` is killed while the others wait for its part of a sum. */
static uint32_t victim;
static int dies(struct collective *c, struct err *err)
{
    float y[4] = {1, 2, 3, 4};
    if (c->ops->barrier(c, err))
        return 8;
    if (c->rank == victim)
        kill(getpid(), SIGKILL);
    return c->ops->sum(c, y, 4, err) ? 7 : 0;
}

Test(collective, a_death_is_named)
{
    for (victim = 0; victim < 3; victim += 2) {
        int codes[8];
        char out[8][1200], want[40];
        uint64_t start = clock_mono_ns();
        run(3, dies, codes, out);
        snprintf(want, sizeof want, "rank %u of 3 has died", victim);
        for (uint32_t i = 0; i < 3; i++) {
            cr_expect_eq(codes[i], i == victim ? -SIGKILL : 7, "rank %u: %d", i, codes[i]);
            if (i != victim)
                cr_expect(strstr(out[i], want), "rank %u: %s", i, out[i]);
        }
        cr_expect(clock_mono_ns() - start < 200 * NS_PER_S, "it took longer than any timeout");
    }
}

/* Whoever is `victim` joins no sum, and lives on. */
static int stands(struct collective *c, struct err *err)
{
    float y = 1;
    uint64_t end = clock_mono_ns() + 200 * NS_PER_S;
    if (c->ops->barrier(c, err))
        return 8;
    if (c->rank != victim)
        return c->ops->sum(c, &y, 1, err) && c->broken ? 7 : 0;
    while (c->ops->check(c, err) == 0)
        if (clock_mono_ns() > end)
            return 6;
    return 7;
}

Test(collective, one_that_stands_still_is_named)
{
    patience_ns = 3 * NS_PER_S;
    for (victim = 0; victim < 3; victim += 2) {
        int codes[8];
        char out[8][1200], want[40], own[40];
        run(3, stands, codes, out);
        snprintf(want, sizeof want, "rank %u of 3 stands still", victim);
        snprintf(own, sizeof own, "this rank, %u of 3, stood still", victim);
        for (uint32_t i = 0; i < 3; i++) {
            cr_expect_eq(codes[i], 7, "rank %u: %d", i, codes[i]);
            cr_expect(strstr(out[i], i == victim ? own : want), "rank %u: %s", i, out[i]);
        }
    }
}

/* Rank 2 is asked to stop; all hear of it. Rank 0 joins no sum then, and stays until the others
 * have gone. */
static int stops(struct collective *c, struct err *err)
{
    float y = 1;
    uint64_t end = clock_mono_ns() + 200 * NS_PER_S;
    if (c->ops->stops(c) || c->ops->check(c, err) || c->ops->barrier(c, err))
        return 8;
    if (c->rank == 2)
        asked = SIGTERM;
    while (!c->ops->stops(c))
        if (clock_mono_ns() > end)
            return 6;
    if (c->rank > 0)
        return c->ops->sum(c, &y, 1, err) && c->broken ? 7 : 0;
    while (c->ops->check(c, err) == 0 || err->class == ERR_CANCELLED)
        if (clock_mono_ns() > end + STORE_STOP_NS)
            return 5;
    return 7;
}

Test(collective, a_stop_is_heard_and_not_waited_with_for_long)
{
    int codes[8];
    char out[8][1200];
    uint64_t start = clock_mono_ns();
    run(3, stops, codes, out);
    int late = 0; /* the first that waits no longer; its end is what the others may see */
    for (uint32_t i = 0; i < 3; i++) {
        bool is_late = strstr(out[i], "asked to stop, and not all of 3 ranks have answered 10 s");
        cr_expect_eq(codes[i], 7, "rank %u: %d", i, codes[i]);
        cr_expect(is_late || strstr(out[i], " of 3 has died or ended"), "rank %u: %s", i, out[i]);
        late += is_late;
    }
    cr_expect(late > 0, "%s; %s", out[1], out[2]);
    cr_expect(clock_mono_ns() - start >= STORE_STOP_NS, "it was not waited for");
}

Test(collective, alone_needs_nobody)
{
    struct rendezvous r = {.ranks = 1};
    struct collective *c;
    float y = 5;
    cr_assert_eq(collective_open(&c, &r, NULL, NULL), 0);
    cr_expect(!c->ops->sum(c, &y, 1, NULL) && !c->ops->barrier(c, NULL) && y == 5);
    collective_close(c);
}

Test(collective, nobody_there)
{
    struct rendezvous r = {.ranks = 2, .rank = 1, .where = "127.0.0.1:1", .timeout_ns = 1};
    struct collective *c;
    struct err err = {0};
    cr_expect_eq(collective_open(&c, &r, NULL, &err), -1);
    cr_expect(strstr(err.msg, "does not reach rank 0 at 127.0.0.1:1"), "%s", err.msg);
    snprintf(r.where, sizeof r.where, "nonsense");
    cr_expect_eq(collective_open(&c, &r, NULL, &err), -1);
    cr_expect(strstr(err.msg, "want HOST:PORT"), "%s", err.msg);
}

/* A connection of a rank that asks for a key. */
static int waiting_rank(const char *place, uint32_t rank, const char *key)
{
    char where[128] = "", why[ADDRESS_WHY], answer[STORE_HEAD];
    cleanup_bytes struct bytes out = {0};
    cleanup_file FILE *f = fopen(place, "re");
    cr_assert(f && fgets(where, sizeof where, f));
    where[strcspn(where, "\n")] = '\0';
    int fd = address_connect("127.0.0.1", strchr(where, ':') + 1, why);
    cr_assert(fd >= 0, "%s", why);
    store_frame_add(&out, STORE_HELLO, rank, NULL, 0, NULL, 0);
    store_frame_add(&out, STORE_GET, rank, key, strlen(key), NULL, 0);
    cr_assert_eq(address_send(fd, out.data, out.len), 0);
    cr_assert_eq(recv(fd, answer, sizeof answer, MSG_WAITALL), STORE_HEAD);
    return fd;
}

/* A rank that waits says whom for, those that came and run no more, too: what is missing is found
 * in its own log. */
Test(store, names_whom_it_waits_for)
{
    char dir[] = "/tmp/sampan-unit-XXXXXX";
    const char *const key = "nobody sets it";
    struct rendezvous first = {.ranks = 5, .timeout_ns = 300 * NS_PER_S};
    struct store *a, *b;
    struct err err = {0};
    void *value;
    size_t len;
    cr_assert(mkdtemp(dir));
    snprintf(first.where, sizeof first.where, "file://%s/place", dir);
    struct rendezvous third = first;
    third.rank = 2;
    for (third.timeout_ns = NS_PER_S;; third.timeout_ns *= 2) { /* enough to come to rank 0 */
        cr_assert_eq(store_open(&a, &first, NULL, &err), 0, "%s", err.msg);
        if (store_open(&b, &third, NULL, &err) == 0)
            break;
        store_close(a, false);
    }
    int fifth = waiting_rank(first.where + 7, 4, key);
    cr_assert_eq(store_get(b, key, &value, &len, &err), -1);
    cr_expect_str_eq(err.msg, "rendezvous: rank 2 waits in vain: of 5 ranks these did not come, or "
                              "stand still: 0, 1, 3");
    close(fifth);
    store_close(b, true);
    store_close(a, false);
    unlink(first.where + 7);
    rmdir(dir);
}

static int port_of(int listener, char *port, size_t size)
{
    struct sockaddr_storage a;
    socklen_t len = sizeof a;
    return getsockname(listener, (struct sockaddr *)&a, &len) ||
           getnameinfo((struct sockaddr *)&a, len, NULL, 0, port, (socklen_t)size, NI_NUMERICSERV);
}

/* The kernel takes connections in its place. */
Test(store, names_rank_0_that_stands_still)
{
    struct rendezvous r = {.ranks = 3, .rank = 1, .timeout_ns = NS_PER_S};
    struct store *s;
    struct err err = {0};
    char port[ADDRESS_PORT];
    int listener = address_listen("127.0.0.1", "0", &err);
    cr_assert(listener >= 0, "%s", err.msg);
    cr_assert_eq(port_of(listener, port, sizeof port), 0);
    snprintf(r.where, sizeof r.where, "127.0.0.1:%s", port);
    cr_expect_eq(store_open(&s, &r, NULL, &err), -1);
    cr_expect(strstr(err.msg, "rank 1 waits in vain: rank 0 at 127.0.0.1:") &&
                  strstr(err.msg, " does not answer"),
              "%s", err.msg);
    close(listener);
}

/* --- the store out of descriptors ------------------------------------------------------------- */

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Who comes when no descriptor is left is let in when there is one, and waits without a spin. */
Test(store, waits_for_a_descriptor)
{
    struct store_server *s;
    struct err err = {0};
    struct rlimit most, none;
    char port[ADDRESS_PORT], why[ADDRESS_WHY], answer[STORE_HEAD];
    cleanup_bytes struct bytes hello = {0};
    int listener = address_listen("127.0.0.1", "0", &err);
    cr_assert(listener >= 0, "%s", err.msg);
    cr_assert_eq(port_of(listener, port, sizeof port), 0);
    cr_assert_eq(store_serve(&s, listener, 1, &err), 0, "%s", err.msg);
    int fd = address_connect("127.0.0.1", port, why), second = -1;
    cr_assert(fd >= 0, "%s", why);
    store_frame_add(&hello, STORE_HELLO, 0, NULL, 0, NULL, 0);
    cr_assert_eq(address_send(fd, hello.data, hello.len), 0);
    cr_assert_eq(recv(fd, answer, sizeof answer, MSG_WAITALL), STORE_HEAD);

    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &most), 0);
    none = most;
    second = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    none.rlim_cur = (rlim_t)second + 1; /* the lowest that was free: no other is, below */
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    struct sockaddr_storage at;
    socklen_t len = sizeof at;
    cr_assert_eq(getpeername(fd, (struct sockaddr *)&at, &len), 0);
    cr_assert_eq(connect(second, (struct sockaddr *)&at, len), 0);
    double before = cpu_seconds();
    usleep(2000000); /* a spin gets more of this than some twenty looks take, however busy it is */
    cr_expect(cpu_seconds() - before < 0.05, "it spins: %.3f s", cpu_seconds() - before);

    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &most), 0);
    cr_assert_eq(address_send(second, hello.data, hello.len), 0);
    cr_assert_eq(recv(second, answer, sizeof answer, MSG_WAITALL), STORE_HEAD);
    cr_expect_eq(answer[0], STORE_WRONG, "rank 0 is here already");
    close(second);
    close(fd);
    store_serve_end(s, 0);
}

/*
 * The layer of other machines, over a store that makes bytes up and a machine (a small server here)
 * that is good, has nothing, lies, is silent, or refuses.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "catalog.h"
#include "clock.h"
#include "fetch.h"
#include "hedge-internal.h"
#include "crc.h"
#include "mem.h"
#include "peer-frames.h"
#include "peer.h"
#include "server.h"
#include "sync.h"

#define SAMPLES 48
#define SIZE    3000u

enum mode { GOOD, ABSENT, FLIP, LENGTH, ORDER, CUT, REFUSE_409, REFUSE_401, BUSY, GARBAGE, SILENT };

static struct catalog *catalog;
static struct pool *pool;
static struct source *layer;
static char dir[] = "/tmp/sampan-peer-XXXXXX";
static uint64_t ids[SAMPLES];

static struct machine {
    int listener;
    unsigned port;
    pthread_t thread;
    _Atomic int mode, held, requests, samples, stop;
    pthread_t clients[64];
    int n_clients;
} machine;

static void fill(uint64_t id, unsigned char *out)
{
    for (unsigned i = 0; i < SIZE; i++)
        out[i] = (unsigned char)(id * 31 + i * 7 + (i >> 8));
}

/* --- the machine ------------------------------------------------------------------------------ */

static void put(int sock, const void *data, size_t len)
{
    for (const char *at = data; len;) {
        ssize_t n = send(sock, at, len, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        at += n;
        len -= (size_t)n;
    }
}

static void answer(int sock, int status, const struct bytes *body)
{
    cleanup_bytes struct bytes head = {0};
    bytes_addf(&head, "HTTP/1.1 %d X\r\nContent-Length: %zu\r\n\r\n", status, body ? body->len : 0);
    put(sock, head.data, head.len);
    if (body)
        put(sock, body->data, body->len);
}

static void add_sample(struct bytes *out, uint64_t id, uint32_t off, uint32_t len, uint32_t index,
                       int mode)
{
    unsigned char whole[SIZE], *bytes = whole + off, head[PEER_HEAD];
    fill(id, whole);
    struct peer_frame f = {PEER_HERE, len, crc32c(0, bytes, len), index};
    if (mode == ABSENT)
        f = (struct peer_frame){.status = PEER_ABSENT, .index = index};
    if (mode == LENGTH)
        f.len--;
    if (mode == ORDER)
        f.index++;
    bytes[len / 2] ^= mode == FLIP;
    peer_frame_head(head, &f);
    bytes_add(out, head, sizeof head);
    bytes_add(out, bytes, f.len);
}

static void answer_batch(int sock, const char *body, int mode)
{
    cleanup_bytes struct bytes out = {0};
    unsigned char head[PEER_HEAD];
    uint32_t n = 0;
    bytes_add(&out, head, sizeof head);
    for (const char *at = body; (at = strstr(at, "\"id\":")); at++) {
        uint64_t id;
        uint32_t off, len;
        cr_assert_eq(sscanf(at, "\"id\":%lu,\"offset\":%u,\"length\":%u", &id, &off, &len), 3);
        add_sample(&out, id, off, len, n++, mode);
    }
    peer_stream_head((unsigned char *)out.data, n);
    atomic_fetch_add(&machine.requests, n > 0);
    atomic_fetch_add(&machine.samples, (int)n);
    while (n && atomic_load(&machine.held) && !atomic_load(&machine.stop))
        poll(NULL, 0, 1);
    if (n && mode == CUT) { /* a whole answer over HTTP, but not of frames */
        out.len -= 5;
        answer(sock, 200, &out);
    } else if (n && mode == GARBAGE) {
        memset(out.data, 'x', out.len);
        answer(sock, 200, &out);
    } else if (mode >= REFUSE_409 && mode <= BUSY) {
        answer(sock, mode == REFUSE_409 ? 409 : mode == BUSY ? 503 : 401, NULL);
    } else {
        answer(sock, 200, &out);
    }
}

static void *client_main(void *arg)
{
    int sock = (int)(intptr_t)arg;
    char text[16384];
    size_t len = 0;
    for (;;) {
        ssize_t n = recv(sock, text + len, sizeof text - 1 - len, 0);
        if (n <= 0)
            break;
        text[len += (size_t)n] = '\0';
        const char *end = strstr(text, "\r\n\r\n"), *size = strcasestr(text, "content-length:");
        if (!end || (size && text + len < end + 4 + strtoul(size + 15, NULL, 10)))
            continue;
        int mode = atomic_load(&machine.mode);
        while (mode == SILENT && !atomic_load(&machine.stop) && strncmp(text, "POST", 4) == 0)
            poll(NULL, 0, 1);
        if (strncmp(text, "POST", 4) == 0)
            answer_batch(sock, end + 4, mode);
        else
            answer(sock, 200, NULL);
        len = 0;
    }
    close(sock);
    return NULL;
}

static void *machine_main(void *arg)
{
    int sock;
    (void)arg;
    while ((sock = accept(machine.listener, NULL, NULL)) >= 0 && machine.n_clients < 64)
        pthread_create(&machine.clients[machine.n_clients++], NULL, client_main,
                       (void *)(intptr_t)sock);
    return NULL;
}

static void machine_start(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    machine.listener = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(bind(machine.listener, (struct sockaddr *)&at, sizeof at), 0);
    cr_assert_eq(listen(machine.listener, 64), 0);
    getsockname(machine.listener, (struct sockaddr *)&at, &len);
    machine.port = ntohs(at.sin_port);
    pthread_create(&machine.thread, NULL, machine_main, NULL);
}

static void machine_stop(void)
{
    atomic_store(&machine.stop, 1);
    shutdown(machine.listener, SHUT_RDWR);
    pthread_join(machine.thread, NULL);
    for (int i = 0; i < machine.n_clients; i++)
        pthread_join(machine.clients[i], NULL);
    close(machine.listener);
}

/* --- the store -------------------------------------------------------------------------------- */

static _Atomic int store_reads, store_fails, store_prio; /* the last one's */

static void no_release(struct view *v)
{
    buf_unref(v->owner);
}

static int store_read(struct source *s, const struct piece *p, struct view *ret,
                      struct source_wait *wait, struct err *err)
{
    (void)s, (void)wait;
    atomic_fetch_add(&store_reads, 1);
    atomic_store(&store_prio, (int)p->prio);
    if (atomic_load(&store_fails))
        return err_set(err, ERR_TRANSIENT, "the store is gone");
    unsigned char whole[SIZE];
    struct unit_span got = piece_fetched(p, SIZE);
    fill(p->unit, whole);
    memcpy(p->into->data, whole + got.off, got.len);
    *ret = (struct view){.ptr = p->into->data + p->off - got.off,
                         .len = p->len < SIZE - p->off ? p->len : SIZE - p->off,
                         .origin = FROM_STORE,
                         .release = no_release,
                         .owner = buf_ref(p->into)};
    return 0;
}

static const struct source_ops store_ops = {.name = "made-up", .read = store_read};
static struct source store = {.ops = &store_ops};

/* --- the rig ---------------------------------------------------------------------------------- */

static bool note_id(void *arg, const struct entry *e)
{
    size_t *n = arg;
    ids[(*n)++] = e->id;
    return true;
}

static void build_catalog(void)
{
    struct catalog_builder *b;
    char *file = NULL;
    size_t n = 0;
    struct catalog_diff_counts diff;
    const struct catalog_source_row source = {"minio://test/b/", ""};
    cr_assert_not_null(mkdtemp(dir));
    cr_assert_eq(catalog_builder_new(&b, dir, NULL, &source, 1, NULL), 0);
    for (size_t i = 0; i < SAMPLES; i++) {
        char key[16];
        snprintf(key, sizeof key, "s%02zu", i);
        const struct row r = {.key = key, .key_len = strlen(key), .size = SIZE, .etag = ""};
        cr_assert_eq(catalog_builder_add(b, &r, NULL), 0);
    }
    cr_assert_eq(catalog_builder_finish(b, NULL, &file, &diff, NULL), 0);
    catalog_builder_free(b);
    cr_assert_eq(catalog_open(&catalog, file, NULL), 0);
    cr_assert_eq(catalog_walk(catalog, 0, note_id, &n, NULL), 0);
    free(file);
}

static size_t owner(void *arg, uint64_t sample, uint32_t *ret, size_t max)
{
    (void)arg, (void)sample, (void)max;
    ret[0] = 1;
    return 1;
}

static void set_peers(const char *list)
{
    struct err err = {0};
    cr_assert_eq(peer_set_list(layer, list, &err), 0, "%s", err.msg);
}

static void begin_with(const struct peer_conf *conf, int mode)
{
    struct err err = {0};
    struct peer_conf patient = *conf;
    if (!patient.patience_ns)
        patient.patience_ns = 600 * NS_PER_S; /* the only silence is SILENT's */
    build_catalog();
    atomic_store(&machine.mode, mode);
    machine_start();
    pool = pool_new(64u << 20);
    cr_assert_eq(peer_source_new(&layer, &patient, &store, &err), 0);
    cleanup_free char *list = xasprintf("http://127.0.0.1:1,http://127.0.0.1:%u/", machine.port);
    set_peers(list);
}

static void begin(int mode)
{
    const struct peer_conf conf = {.owners = owner};
    begin_with(&conf, mode);
}

static void finish(void)
{
    layer->ops->close(layer);
    machine_stop();
    pool_free(pool);
    catalog_remove(catalog, dir);
}

struct call {
    struct source_wait wait; /* first */
    struct piece piece;
    struct view view;
    struct err err;
    _Atomic int done;
};

static void on_done(struct source_wait *wait, struct view *view, const struct err *err)
{
    struct call *c = (struct call *)wait;
    if (err)
        c->err = *err;
    else
        c->view = *view;
    atomic_fetch_add(&c->done, 1);
}

static void call_begin(struct call *c, const struct piece *what)
{
    *c = (struct call){.wait.done = on_done, .piece = *what};
    c->piece.catalog = catalog;
    c->piece.into = pool_get(pool, SIZE);
    int rc = source_read(layer, &c->piece, &c->view, &c->wait, &c->err);
    if (rc != SOURCE_PENDING)
        atomic_store(&c->done, 1);
}

static void call_start(struct call *c, uint64_t id, enum prio prio)
{
    call_begin(c, &(struct piece){.unit = id, .len = SIZE, .prio = prio});
}

static void call_warm(struct call *c, uint64_t id, const atomic_bool *token)
{
    const struct piece p = {.unit = id, .len = SIZE, .prio = PRIO_WARMUP, .given_up = token};
    call_begin(c, &p);
}

/* Waits; returns where the bytes came from, which were right; -1: it failed. */
static int call_end(struct call *c, uint64_t id)
{
    unsigned char want[SIZE];
    while (!atomic_load(&c->done))
        poll(NULL, 0, 1);
    int from = -1;
    if (!c->err.class) {
        fill(id, want);
        cr_assert_eq(c->view.len, c->piece.len);
        cr_assert_eq(memcmp(c->view.ptr, want + c->piece.off, c->view.len), 0, "wrong bytes");
        from = (int)c->view.origin;
        view_release(&c->view);
    }
    buf_unref(c->piece.into);
    cr_assert_eq(atomic_load(&c->done), 1);
    return from;
}

static int read_one(uint64_t id)
{
    struct call c;
    call_start(&c, id, PRIO_READER);
    return call_end(&c, id);
}

static bool status_has(const char *text)
{
    cleanup_bytes struct bytes out = {0};
    struct json_writer w;
    jw_init(&w, &out);
    jw_object(&w, NULL);
    peer_status(layer, &w);
    jw_end(&w);
    return strstr(out.data, text) != NULL;
}

static void wait_for(const char *text)
{
    for (int i = 0; i < 300000 && !status_has(text); i++)
        poll(NULL, 0, 1);
    cr_assert(status_has(text), "status never has %s", text);
}

#define SECOND_IS(state) "\"state\":\"" state "\",\"requests\""

/* --- tests ------------------------------------------------------------------------------------ */

Test(peer, what_waits_goes_in_one_request)
{
    static struct call calls[SAMPLES];
    begin(GOOD);
    wait_for(SECOND_IS("ok"));
    atomic_store(&machine.held, 1);
    for (int i = 0; i < SAMPLES; i++)
        call_start(&calls[i], ids[i], PRIO_READER);
    atomic_store(&machine.held, 0);
    for (int i = 0; i < SAMPLES; i++)
        cr_expect_eq(call_end(&calls[i], ids[i]), FROM_PEER, "sample %d", i);
    cr_expect_eq(atomic_load(&machine.requests), 5, "four alone, and one with the rest");
    cr_expect_eq(atomic_load(&machine.samples), SAMPLES);
    cr_expect_eq(atomic_load(&store_reads), 0);
    finish();
}

Test(peer, a_prefetch_that_a_reader_wants_goes_first)
{
    static struct call calls[8];
    begin(GOOD);
    wait_for(SECOND_IS("ok"));
    atomic_store(&machine.held, 1);
    for (int i = 0; i < 8; i++)
        call_start(&calls[i], ids[i], PRIO_PREFETCH);
    while (atomic_load(&machine.requests) < 2)
        poll(NULL, 0, 1);
    const struct piece p = {.catalog = catalog, .unit = ids[5], .into = calls[5].piece.into};
    layer->ops->raise(layer, &p); /* a third request, past the two that prefetch may have */
    while (atomic_load(&machine.requests) < 3)
        poll(NULL, 0, 1);
    atomic_store(&machine.held, 0);
    for (int i = 0; i < 8; i++)
        cr_expect_eq(call_end(&calls[i], ids[i]), FROM_PEER);
    finish();
}

Test(peer, a_prefetch_that_a_reader_wants_is_one_at_the_store_too)
{
    struct call c;
    begin(GOOD);
    wait_for(SECOND_IS("ok"));
    atomic_store(&machine.mode, CUT);
    atomic_store(&machine.held, 1);
    call_start(&c, ids[0], PRIO_WARMUP);
    while (atomic_load(&machine.requests) < 1)
        poll(NULL, 0, 1);
    const struct piece p = {.catalog = catalog, .unit = ids[0], .into = c.piece.into};
    layer->ops->raise(layer, &p);
    atomic_store(&machine.held, 0);
    call_end(&c, ids[0]);
    cr_expect_eq(atomic_load(&store_prio), PRIO_READER);
    finish();
}

Test(peer, what_is_given_up_ends_and_the_machine_is_no_worse_for_it)
{
    enum { N = 12 };
    static struct call calls[N];
    atomic_bool token = false;
    begin(GOOD);
    wait_for(SECOND_IS("ok"));
    atomic_store(&machine.held, 1);
    for (int i = 0; i < N; i++) /* two are sent, each alone; the others wait */
        call_warm(&calls[i], ids[i], i % 3 ? &token : NULL);
    while (atomic_load(&machine.requests) < 2)
        poll(NULL, 0, 1);
    atomic_store(&token, true);
    source_give_up(layer);
    for (int i = 0; i < N; i++) {
        if (i % 3 == 0)
            continue;
        cr_expect_eq(call_end(&calls[i], ids[i]), -1);
        cr_expect_eq(calls[i].err.class, ERR_CANCELLED, "%s", calls[i].err.msg);
    }
    atomic_store(&machine.held, 0);
    for (int i = 0; i < N; i += 3)
        cr_expect_eq(call_end(&calls[i], ids[i]), FROM_PEER);
    cr_expect(status_has(SECOND_IS("ok")));
    cr_expect_eq(atomic_load(&machine.samples), 2 + N / 3 - 1, "what waited was not asked for");
    cr_expect_eq(atomic_load(&store_reads), 0);
    finish();
}

Test(peer, a_request_goes_on_for_one_that_is_wanted)
{
    enum { N = 12 };
    static struct call calls[N];
    atomic_bool first = false, most = false;
    begin(GOOD);
    wait_for(SECOND_IS("ok"));
    atomic_store(&machine.held, 1);
    for (int i = 0; i < N; i++)
        call_warm(&calls[i], ids[i], i == 0 ? &first : i < N - 1 ? &most : NULL);
    while (atomic_load(&machine.requests) < 2)
        poll(NULL, 0, 1);
    atomic_store(&first, true); /* its request ends, and all that wait go in the next */
    source_give_up(layer);
    cr_expect_eq(call_end(&calls[0], ids[0]), -1);
    while (atomic_load(&machine.requests) < 3)
        poll(NULL, 0, 1);
    atomic_store(&most, true); /* the second's request ends, the third's has one that is wanted */
    source_give_up(layer);
    cr_expect_eq(call_end(&calls[1], ids[1]), -1);
    atomic_store(&machine.held, 0);
    for (int i = 2; i < N; i++)
        cr_expect_eq(call_end(&calls[i], ids[i]), FROM_PEER);
    cr_expect_eq(atomic_load(&machine.requests), 3);
    cr_expect_eq(atomic_load(&store_reads), 0);
    finish();
}

static void check_fault_within(int mode, const char *state, uint64_t patience_ns)
{
    const struct peer_conf conf = {.owners = owner, .patience_ns = patience_ns};
    begin_with(&conf, GOOD);
    wait_for(SECOND_IS("ok"));
    atomic_store(&machine.mode, mode);
    cr_expect_eq(read_one(ids[0]), FROM_STORE, "mode %d", mode);
    cr_expect_eq(atomic_load(&store_reads), 1);
    wait_for(state);
    atomic_store(&machine.mode, GOOD);
    wait_for(SECOND_IS("ok"));
    int from = read_one(ids[1]);
    for (int try = 0; try < 20 && patience_ns && from != FROM_PEER; try++) {
        wait_for(SECOND_IS("ok")); /* it was not scheduled for so long: silence again */
        from = read_one(ids[1]);
    }
    cr_expect_eq(from, FROM_PEER, "after mode %d", mode);
    finish();
}

static void check_fault(int mode, const char *state)
{
    check_fault_within(mode, state, 0);
}

Test(peer, that_has_it_not_is_no_worse_for_it)
{
    check_fault(ABSENT, SECOND_IS("ok"));
}

Test(peer, one_wrong_sum_is_thrown_away)
{
    check_fault(FLIP, "\"bad\":1");
}

Test(peer, a_wrong_length_ends_it)
{
    check_fault(LENGTH, "\"bad\":1");
}

Test(peer, frames_out_of_order_end_it)
{
    check_fault(ORDER, "\"bad\":1");
}

Test(peer, an_answer_that_ends_early_ends_it)
{
    check_fault(CUT, "\"bad\":1");
}

Test(peer, garbage_ends_it)
{
    check_fault(GARBAGE, "\"bad\":1");
}

Test(peer, silence_costs_one_timeout)
{
    check_fault_within(SILENT, "\"errors\":1", 2 * NS_PER_S);
}

Test(peer, of_another_version_is_left_alone)
{
    check_fault(REFUSE_409, SECOND_IS("version"));
}

Test(peer, that_refuses_the_token_is_left_alone)
{
    check_fault(REFUSE_401, SECOND_IS("denied"));
}

Test(peer, that_is_busy_is_asked_again)
{
    check_fault(BUSY, "\"errors\":1");
}

Test(peer, a_piece_alone_is_all_that_is_fetched)
{
    struct call c;
    begin(GOOD);
    const struct piece p = {.unit = ids[7], .off = 1000, .len = 500, .alone = true};
    for (int i = 0; i < 2; i++) {
        call_begin(&c, &p);
        cr_expect_eq(call_end(&c, p.unit), i ? FROM_STORE : FROM_PEER);
        atomic_store(&machine.mode, ABSENT);
    }
    finish();
}

Test(peer, and_store_that_both_fail_are_an_error)
{
    begin(ABSENT);
    atomic_store(&store_fails, 1);
    cr_expect_eq(read_one(ids[0]), -1);
    finish();
}

/* On a machine that stands still for seconds the timeout may come first: then once more. */
Test(peer, a_late_reader_is_served_by_the_store_and_nobody_waits)
{
    bool hedged = false;
    begin(GOOD);
    for (int try = 0; try < 20 && !hedged; try++) {
        wait_for(SECOND_IS("ok"));
        for (int i = 0; i < 200; i++) /* what its 95th percentile is */
            cr_assert_geq(read_one(ids[i % SAMPLES]), 0);
        wait_for(SECOND_IS("ok"));
        atomic_store(&machine.held, 1);
        cr_expect_eq(read_one(ids[0]), FROM_STORE);
        atomic_store(&machine.held, 0);
        hedged = !status_has("\"hedges\":0,\"why\":\"\"");
    }
    cr_expect(hedged);
    finish();
}

/* Those that came while there were enough second requests already get theirs later. */
Test(peer, late_readers_without_a_second_request_are_looked_at_again)
{
    enum { LATE = 4, N = LATE + 100 };
    static struct call calls[N];
    begin(GOOD);
    cleanup_free char *twice =
        xasprintf("http://127.0.0.1:%u,http://127.0.0.1:%u", machine.port, machine.port);
    set_peers(twice); /* none is lost: no check of it wakes who looks */
    wait_for(SECOND_IS("ok"));
    for (int i = 0; i < HEDGE_ENOUGH; i++) /* one in twenty may be late: three */
        cr_assert_geq(read_one(ids[i % SAMPLES]), 0);
    atomic_store(&machine.held, 1);
    for (int i = 0; i < N; i++) {
        if (i == LATE)
            poll(NULL, 0, 300); /* what is allowed is used up by then, most likely */
        call_start(&calls[i], ids[i % SAMPLES], PRIO_READER);
    }
    for (int i = 0, ms = 0; i < LATE && ms < 60000; ms++, poll(NULL, 0, 1))
        while (i < LATE && atomic_load(&calls[i].done))
            i++;
    atomic_store(&machine.held, 0);
    for (int i = 0; i < N; i++) {
        int from = call_end(&calls[i], ids[i % SAMPLES]);
        cr_expect(from == FROM_STORE || (i >= LATE && from == FROM_PEER), "%d from %d", i, from);
    }
    finish();
}

/* The machine answers late: nobody else is asked. */
static void check_patience(const struct peer_conf *conf)
{
    begin_with(conf, GOOD);
    wait_for(SECOND_IS("ok"));
    for (int i = 0; i < 200; i++)
        cr_assert_geq(read_one(ids[i % SAMPLES]), 0);
    struct call c;
    atomic_store(&machine.held, 1);
    call_start(&c, ids[0], PRIO_READER);
    poll(NULL, 0, 100); /* longer than the percentile, or the test says nothing */
    atomic_store(&machine.held, 0);
    cr_expect_geq(call_end(&c, ids[0]), 0);
    cr_expect(status_has("\"hedges\":0,\"why\":\"\""));
    finish();
}

Test(peer, a_store_that_takes_longer_is_not_asked_early)
{
    static struct fetch_counts counts;
    for (int i = 0; i < 100; i++)
        histogram_add(&counts.latency, 300 * NS_PER_S);
    const struct peer_conf conf = {.owners = owner, .store = &counts};
    check_patience(&conf);
}

Test(peer, late_readers_wait_where_hedging_is_off)
{
    const struct peer_conf conf = {.owners = owner, .no_hedge = true};
    check_patience(&conf);
}

Test(peer, closing_ends_what_waits)
{
    struct call c;
    begin(GOOD);
    wait_for(SECOND_IS("ok"));
    atomic_store(&machine.mode, SILENT);
    call_start(&c, ids[0], PRIO_READER);
    peer_stop(layer);
    cr_expect_eq(call_end(&c, ids[0]), -1);
    cr_expect_eq(c.err.class, ERR_CANCELLED);
    finish();
}

Test(peer, a_file_that_is_no_list_is_not_repeated)
{
    static const char text[] = "# machines\n\nthe-secret:x:0:0\n";
    char path[] = "/tmp/peers-XXXXXX";
    struct err err = {0};
    begin(GOOD);
    int fd = mkstemp(path);
    cr_assert(fd >= 0 && write(fd, text, sizeof text - 1) == sizeof text - 1);
    close(fd);
    cr_expect_eq(peer_set_list(layer, path, &err), -1);
    cr_expect(strstr(err.msg, path) && strstr(err.msg, "line 3: want"), "%s", err.msg);
    cr_expect(!strstr(err.msg, "secret"), "%s", err.msg);
    unlink(path);
    finish();
}

Test(peer, lists_that_are_wrong_change_nothing)
{
    static const char *const bad[] = {"ftp://h:1,http://h:2", "http://u@h:1,http://h:2",
                                      "http://,http://h:2",   "http://h:1/x,http://h:2",
                                      "nowhere-such-file",    "http://h:1?x,http://h:2"};
    begin(GOOD);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err err = {0};
        cr_expect_eq(peer_set_list(layer, bad[i], &err), -1, "%s", bad[i]);
        cr_expect_eq(read_one(ids[0]), FROM_PEER);
    }
    set_peers("");
    cr_expect_eq(read_one(ids[0]), FROM_STORE);
    finish();
}

/* The owner's side of the control socket, asked over the socket itself. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "volume/support.h"
#include "control-serve.h"
#include "control.h"
#include "keeper.h"
#include "mem.h"

#define FILES 40

struct owner {
    struct world world;
    struct volume *volume;
    struct control_server *server;
    char *path;
    struct keeper_state *state; /* what outlives the server, or NULL */
    atomic_int shutdowns;
};

static void write_status(void *arg, struct bytes *json)
{
    struct owner *o = arg;
    status_text(o->volume, json);
}

static void on_shutdown(void *arg)
{
    struct owner *o = arg;
    atomic_fetch_add(&o->shutdowns, 1);
}

static void put_set(const struct world *w)
{
    for (unsigned i = 0; i < FILES; i++) {
        cleanup_free char *path = xasprintf("class%u/%03u.jpg", i % 4, i);
        put_file(w, path, 1000 + i, i);
    }
}

static void owner_serve(struct owner *o)
{
    struct control_server_conf conf = {
        .socket_path = o->path,
        .direct_dir = o->world.own,
        .volume = o->volume,
        .status = write_status,
        .shutdown = on_shutdown,
        .state = o->state,
        .arg = o,
    };
    struct err err = {0};
    cr_assert_eq(control_serve(&o->server, &conf, &err), 0, "%s", err.msg);
    cr_assert_eq(control_accept(o->server, NULL, &err), 0, "%s", err.msg);
}

static void owner_open(struct owner *o, const char *layers)
{
    struct volume_conf conf;
    world_conf(&o->world, &conf);
    conf.layers = layers;
    o->volume = world_open(&conf);
    owner_serve(o);
}

static void owner_new(struct owner *o, const char *layers)
{
    *o = (struct owner){0};
    world_new(&o->world);
    put_set(&o->world);
    o->path = xasprintf("%s/control.sock", o->world.own);
    owner_open(o, layers);
}

static void owner_free(struct owner *o)
{
    control_server_free(o->server);
    cr_assert_neq(access(o->path, F_OK), 0, "the socket is still there");
    volume_close(o->volume);
    keeper_state_unmap(o->state);
    free(o->path);
    world_free(&o->world);
}

/* A life ends, and another one begins with what it left. Returns control_resume(). */
static int owner_next_life(struct owner *o, struct err *err)
{
    control_server_free(o->server);
    volume_close(o->volume);
    owner_open(o, NULL);
    return control_resume(o->server, err);
}

/* Its first life, which leaves something. */
static void owner_new_kept(struct owner *o, const char *layers)
{
    struct err err = {0};
    owner_new(o, layers);
    control_server_free(o->server);
    cr_assert_eq(keeper_state_own(1, 8192, &o->state, &err), 0, "%s", err.msg);
    owner_serve(o);
}

/* One request that must succeed. */
static struct json_doc *ask(const struct owner *o, const char *request, int *fd)
{
    struct bytes text = {0};
    struct json_doc *doc = NULL;
    struct err err = {0};
    bytes_add_str(&text, request);
    cr_assert_eq(control_call(o->path, &text, NULL, NULL, &doc, fd, &err), 0, "%s: %s", request,
                 err.msg);
    bytes_release(&text);
    return doc;
}

static void expect_refusal(const struct owner *o, const char *request, enum err_class class,
                           const char *word)
{
    struct bytes text = {0};
    struct json_doc *doc = NULL;
    struct err err = {0};
    bytes_add_str(&text, request);
    cr_expect_eq(control_call(o->path, &text, NULL, NULL, &doc, NULL, &err), -1, "%s", request);
    cr_expect_eq(err.class, class, "%s: %s: %s", request, err_class_name(err.class), err.msg);
    cr_expect_not_null(strstr(err.msg, word), "%s: %s", request, err.msg);
    bytes_release(&text);
}

static int64_t field(const struct json_doc *doc, const char *group, const char *key)
{
    struct json root = json_root(doc), at = group ? json_get(&root, group) : root;
    struct err err = {0};
    int64_t n = -1;
    cr_assert_eq(json_int(&at, key, 0, INT64_MAX, &n, &err), 0, "%s", err.msg);
    return n;
}

Test(ctlserve, small_operations)
{
    struct owner o;
    owner_new(&o, NULL);
    struct json_doc *doc = ask(&o, "{\"op\":\"ping\"}", NULL);
    cr_assert_eq(field(doc, NULL, "pid"), getpid());
    json_doc_free(doc);
    doc = ask(&o, "{\"op\":\"status\"}", NULL);
    struct json root = json_root(doc), status = json_get(&root, "status");
    struct json set = json_get(&status, "set");
    int64_t samples;
    cr_assert_eq(json_int(&set, "samples", 0, 1000, &samples, NULL), 0);
    cr_assert_eq(samples, FILES);
    json_doc_free(doc);
    doc = ask(&o, "{\"op\":\"stats\"}", NULL);
    cr_assert(field(doc, "stats", "time_ns") > 0);
    json_doc_free(doc);
    json_doc_free(ask(&o, "{\"op\":\"flush\"}", NULL));
    doc = ask(&o, "{\"op\":\"stale\"}", NULL);
    root = json_root(doc);
    struct json stale = json_get(&root, "stale");
    cr_assert_eq(json_count(&stale), 0);
    json_doc_free(doc);
    json_doc_free(ask(&o, "{\"op\":\"shutdown\"}", NULL));
    cr_assert_eq(atomic_load(&o.shutdowns), 1);
    owner_free(&o);
}

Test(ctlserve, nonsense_is_refused_by_name)
{
    struct owner o;
    owner_new(&o, NULL);
    expect_refusal(&o, "{\"op\":\"frobnicate\"}", ERR_USAGE, "frobnicate");
    expect_refusal(&o, "{\"op\":\"frobnicate\"}", ERR_USAGE, "warmup");
    expect_refusal(&o, "{\"op\":\"ping\",\"loud\":true}", ERR_USAGE, "loud");
    expect_refusal(&o, "{\"nop\":1}", ERR_USAGE, "op");
    expect_refusal(&o, "[1]", ERR_USAGE, "");
    expect_refusal(&o, "{\"op\":", ERR_CORRUPT, "");
    expect_refusal(&o, "{\"op\":\"clear\",\"paths\":[]}", ERR_USAGE, "paths");
    expect_refusal(&o, "{\"op\":\"clear\",\"paths\":\"x\"}", ERR_USAGE, "paths");
    expect_refusal(&o, "{\"op\":\"clear\",\"paths\":[\"nowhere\"]}", ERR_NOT_FOUND, "nowhere");
    expect_refusal(&o, "{\"op\":\"evict\"}", ERR_USAGE, "older_than_s");
    expect_refusal(&o, "{\"op\":\"set\"}", ERR_USAGE, "nothing");
    expect_refusal(&o, "{\"op\":\"set\",\"memory\":\"1MiB\"}", ERR_USAGE, "64MiB");
    expect_refusal(&o, "{\"op\":\"set\",\"connections\":0}", ERR_USAGE, "connections");
    expect_refusal(&o, "{\"op\":\"set\",\"sampler\":\"nosuch\"}", ERR_USAGE, "nosuch");
    expect_refusal(&o, "{\"op\":\"extent\",\"path\":\"nowhere\"}", ERR_NOT_FOUND, "nowhere");
    expect_refusal(&o, "{\"op\":\"extent\",\"path\":\"class0\"}", ERR_USAGE, "folder");
    expect_refusal(&o, "{\"op\":\"extent-return\",\"lease\":7}", ERR_NOT_FOUND, "7");
    json_doc_free(ask(&o, "{\"op\":\"ping\"}", NULL));
    owner_free(&o);
}

Test(ctlserve, set_takes_numbers_and_text)
{
    struct owner o;
    owner_new(&o, NULL);
    struct json_doc *doc =
        ask(&o,
            "{\"op\":\"set\",\"epoch\":\"2\",\"sampler\":\"paddle-random,seed=1\","
            "\"bandwidth\":\"50Mbit\",\"memory\":134217728,\"connections\":16}",
            NULL);
    struct json root = json_root(doc), set = json_get(&root, "set");
    cr_assert_eq(json_count(&set), 5);
    json_doc_free(doc);
    cr_assert_eq(volume_order_length(o.volume, NULL), FILES);
    cr_assert_eq(status_int(o.volume, "order.epoch"), 2);
    cr_assert_eq(status_int(o.volume, "memory.limit"), 134217728);
    owner_free(&o);
}

static bool is_idle(void *arg)
{
    struct owner *o = arg;
    struct bytes text = {0};
    status_text(o->volume, &text);
    bool idle = !strstr(text.data, "\"state\":\"running\"");
    bytes_release(&text);
    return idle;
}

/* --- settings that are kept ------------------------------------------------------------------- */

static void keep(const struct owner *o, const char *name, size_t max, const char *text)
{
    struct err err = {0};
    cr_assert_eq(keeper_text_set(keeper_text(o->state, name, max), text, &err), 0, "%s", err.msg);
}

Test(ctlserve, a_kept_setting_that_is_refused_takes_nothing_else_with_it)
{
    struct owner o;
    struct err err = {0};
    owner_new_kept(&o, NULL);
    keep(&o, "settings", 8192,
         "{\"sampler\":\"list=/nowhere\",\"epoch\":2,"
         "\"memory\":134217728}");
    keep(&o, "warmup", CONTROL_MAX, "{\"op\":\"warmup\",\"background\":true}");
    cr_expect_eq(owner_next_life(&o, &err), -1);
    cr_expect_not_null(strstr(err.msg, "set sampler"), "%s", err.msg);
    cr_expect_eq(status_int(o.volume, "memory.limit"), 134217728);
    wait_until(is_idle, &o, "the warmup has ended");
    cr_expect_eq(status_int(o.volume, "warmup.samples_done"), FILES);
    owner_free(&o);
}

Test(ctlserve, what_was_set_before_another_setting_was_refused_is_kept)
{
    struct owner o;
    struct err err = {0};
    owner_new_kept(&o, NULL);
    expect_refusal(&o,
                   "{\"op\":\"set\",\"sampler\":\"paddle-random,seed=1\",\"epoch\":\"x\","
                   "\"memory\":134217728}",
                   ERR_USAGE, "epoch");
    cr_expect_eq(volume_order_length(o.volume, NULL), FILES);
    cr_expect_eq(owner_next_life(&o, &err), 0, "%s", err.msg);
    cr_expect_eq(volume_order_length(o.volume, NULL), FILES);
    cr_expect_neq(status_int(o.volume, "memory.limit"), 134217728);
    owner_free(&o);
}

Test(ctlserve, weights_are_kept_for_as_many_partitions_alone)
{
    struct owner o;
    struct err err = {0};
    owner_new_kept(&o, NULL);
    json_doc_free(ask(&o,
                      "{\"op\":\"set\",\"strategy\":\"hash\",\"partition\":\"0/2\","
                      "\"weights\":\"1,3\"}",
                      NULL));
    json_doc_free(ask(&o, "{\"op\":\"set\",\"partition\":\"1/2\"}", NULL));
    const struct keeper_text *kept = keeper_text(o.state, "settings", 8192);
    cr_expect_not_null(strstr(keeper_text_get(kept), "\"1,3\""));
    json_doc_free(ask(&o, "{\"op\":\"set\",\"partition\":\"0/3\"}", NULL));
    cr_expect_eq(owner_next_life(&o, &err), 0, "%s", err.msg);
    owner_free(&o);
}

struct watched {
    unsigned n;
    bool go_on;
};

static bool on_progress(void *arg, const struct json *progress)
{
    struct watched *w = arg;
    int64_t total;
    if (!progress) /* there was none for a while */
        return true;
    cr_assert_eq(json_int(progress, "total", 0, FILES, &total, NULL), 0);
    w->n++;
    return w->go_on;
}

Test(ctlserve, warmup_clear_and_rescan)
{
    struct owner o;
    owner_new(&o, NULL);
    struct json_doc *doc = ask(&o, "{\"op\":\"warmup\",\"paths\":[\"class1\"]}", NULL);
    cr_assert_eq(field(doc, "result", "fetched"), FILES / 4);
    json_doc_free(doc);
    doc = ask(&o, "{\"op\":\"warmup\",\"verify\":true}", NULL);
    cr_assert_eq(field(doc, "result", "samples"), FILES);
    cr_assert_eq(field(doc, "result", "already"), FILES / 4);
    cr_assert_eq(field(doc, "result", "failed"), 0);
    json_doc_free(doc);
    doc = ask(&o, "{\"op\":\"clear\",\"paths\":[\"class1\",\"class2/002.jpg\"]}", NULL);
    cr_assert_eq(field(doc, NULL, "samples"), FILES / 4 + 1);
    json_doc_free(doc);
    doc = ask(&o, "{\"op\":\"evict\",\"to\":0}", NULL);
    cr_assert_eq(field(doc, NULL, "samples"), FILES - FILES / 4 - 1);
    json_doc_free(doc);
    put_file(&o.world, "class9/new.jpg", 9, 9);
    doc = ask(&o, "{\"op\":\"rescan\"}", NULL);
    cr_assert_eq(field(doc, NULL, "added"), 1);
    cr_assert_eq(field(doc, NULL, "samples"), FILES + 1);
    json_doc_free(doc);
    owner_free(&o);
}

Test(ctlserve, a_warmup_ends_with_its_client)
{
    struct owner o;
    struct watched watched = {.go_on = false};
    struct err err = {0};
    struct json_doc *doc;
    struct bytes text = {0};
    owner_new(&o, "delay=read:100");
    volume_set_connections(o.volume, 1);
    bytes_add_str(&text, "{\"op\":\"warmup\"}");
    cr_assert_eq(control_call(o.path, &text, on_progress, &watched, &doc, NULL, &err), -1);
    cr_assert_eq(err.class, ERR_CANCELLED, "%s", err.msg);
    bytes_release(&text);
    wait_until(is_idle, &o, "the warmup has ended");
    cr_assert_lt(status_int(o.volume, "warmup.samples_done"), FILES);
    owner_free(&o);
}

Test(ctlserve, a_background_warmup_outlives_its_client)
{
    struct owner o;
    owner_new(&o, "delay=read:20");
    volume_set_connections(o.volume, 1);
    json_doc_free(ask(&o, "{\"op\":\"warmup\",\"background\":true}", NULL));
    expect_refusal(&o, "{\"op\":\"warmup\"}", ERR_LIMIT, "running");
    wait_until(is_idle, &o, "the warmup has ended");
    cr_assert_eq(status_int(o.volume, "warmup.samples_done"), FILES);
    owner_free(&o);
}

static bool cancels(struct owner *o)
{
    struct json_doc *doc = ask(o, "{\"op\":\"warmup-cancel\"}", NULL);
    struct json root = json_root(doc);
    bool cancelled = false;
    cr_assert_eq(json_bool(&root, "cancelled", &cancelled, NULL), 0);
    json_doc_free(doc);
    return cancelled;
}

static bool has_nothing_to_cancel(void *arg)
{
    return !cancels(arg);
}

static bool try_to_cancel(void *arg, const struct json *progress)
{
    (void)progress;
    cr_expect_not(cancels(arg));
    return true;
}

Test(ctlserve, what_is_cancelled_runs_in_the_background)
{
    struct owner o;
    struct err err = {0};
    struct json_doc *doc;
    cleanup_bytes struct bytes text = {0};
    owner_new(&o, "delay=read:100");
    cr_expect_not(cancels(&o));
    bytes_add_str(&text, "{\"op\":\"warmup\",\"paths\":[\"class1\"]}");
    cr_assert_eq(control_call(o.path, &text, try_to_cancel, &o, &doc, NULL, &err), 0, "%s",
                 err.msg);
    json_doc_free(doc);
    volume_set_connections(o.volume, 1);
    json_doc_free(ask(&o, "{\"op\":\"warmup\",\"background\":true}", NULL));
    cr_expect(cancels(&o));
    wait_until(is_idle, &o, "the warmup has ended");
    cr_expect_lt(status_int(o.volume, "warmup.samples_done"), FILES);
    wait_until(has_nothing_to_cancel, &o, "its thread has ended");
    owner_free(&o);
}

Test(ctlserve, what_is_cancelled_is_not_begun_again_by_the_next_life)
{
    struct owner o;
    owner_new_kept(&o, "delay=read:100");
    const struct keeper_text *kept = keeper_text(o.state, "warmup", CONTROL_MAX);
    volume_set_connections(o.volume, 1);
    json_doc_free(ask(&o, "{\"op\":\"warmup\",\"background\":true}", NULL));
    cr_expect_str_neq(keeper_text_get(kept), "");
    cr_expect(cancels(&o));
    cr_expect_str_eq(keeper_text_get(kept), "");
    owner_free(&o);
}

Test(ctlserve, the_server_can_end_in_the_middle_of_a_background_warmup)
{
    struct owner o;
    owner_new(&o, "delay=read:100");
    volume_set_connections(o.volume, 1);
    json_doc_free(ask(&o, "{\"op\":\"warmup\",\"background\":true}", NULL));
    owner_free(&o);
}

/* --- extents --------------------------------------------------------------------------------- */

static bool lease_is_gone(void *arg)
{
    struct json_doc *doc = ask(arg, "{\"op\":\"extent-check\",\"lease\":1}", NULL);
    struct json root = json_root(doc);
    bool valid = true;
    cr_assert_eq(json_bool(&root, "valid", &valid, NULL), 0);
    json_doc_free(doc);
    return !valid;
}

Test(ctlserve, an_extent_is_readable_by_its_descriptor)
{
    struct owner o;
    int fd = -1;
    owner_new(&o, NULL);
    expect_refusal(&o, "{\"op\":\"extent\",\"path\":\"class3/003.jpg\"}", ERR_NOT_FOUND, "");
    check_file(o.volume, "class3/003.jpg", 1003, 3);
    json_doc_free(ask(&o, "{\"op\":\"flush\"}", NULL));
    struct json_doc *doc = ask(&o, "{\"op\":\"extent\",\"path\":\"class3/003.jpg\"}", &fd);
    cr_assert_geq(fd, 0);
    cr_assert_eq(field(doc, NULL, "raw"), 1003);
    cr_assert_eq(field(doc, NULL, "size"), 1003);
    if (field(doc, NULL, "stored") == 1003) {
        unsigned char data[1003];
        cr_assert_eq(pread(fd, data, sizeof data, field(doc, NULL, "offset")), 1003);
        for (unsigned i = 0; i < sizeof data; i++)
            cr_assert_eq(data[i], content_at(3, i));
    }
    close(fd);
    json_doc_free(doc);
    wait_until(lease_is_gone, &o, "the lease went with its connection");
    owner_free(&o);
}

/* --- samples for other machines --------------------------------------------------------------- */

static char *share_request(struct owner *o, const char *samples)
{
    struct catalog *c = volume_catalog(o->volume);
    char *text =
        xasprintf("{\"op\":\"share\",\"version\":\"%s\",\"ids\":\"%llx\",\"samples\":[%s]}",
                  catalog_info(c)->digest, (unsigned long long)catalog_info(c)->ids, samples);
    catalog_unref(c);
    return text;
}

static const char *share_status(const struct json_doc *doc, size_t i)
{
    struct json root = json_root(doc), all = json_get(&root, "samples"), one = json_at(&all, i);
    const char *status = "";
    cr_assert_eq(json_str(&one, "status", &status, NULL), 0);
    return status;
}

Test(ctlserve, samples_are_shared_as_places_and_nothing_is_fetched)
{
    struct owner o;
    int fd = -1;
    owner_new(&o, NULL);
    check_file(o.volume, "class3/003.jpg", 1003, 3);
    json_doc_free(ask(&o, "{\"op\":\"flush\"}", NULL));
    cleanup_free char *samples =
        xasprintf("{\"id\":%llu},{\"id\":%llu},{\"id\":%llu,\"offset\":3,\"length\":7},{\"id\":1}",
                  (unsigned long long)id_of(o.volume, "class3/003.jpg"),
                  (unsigned long long)id_of(o.volume, "class0/000.jpg"),
                  (unsigned long long)id_of(o.volume, "class3/003.jpg"));
    cleanup_free char *request = share_request(&o, samples);
    struct json_doc *doc = ask(&o, request, &fd);
    cr_expect_geq(fd, 0);
    cr_expect_str_eq(share_status(doc, 0), "here");
    cr_expect_str_eq(share_status(doc, 1), "absent");
    cr_expect_str_eq(share_status(doc, 2), "here");
    cr_expect_str_eq(share_status(doc, 3), "error");
    close(fd);
    json_doc_free(doc);
    cr_expect_eq(status_int(o.volume, "fetch.requests"), 1);
    owner_free(&o);
}

/* Anybody who may read the mount may ask: what of a sample is here must not pile up in memory,
 * asked for over and over, when the rest of it is not. */
Test(ctlserve, samples_that_are_here_in_part_take_the_memory_of_one)
{
    struct owner o;
    struct view view;
    struct err err = {0};
    struct stat st;
    int fd = -1;
    cleanup_bytes struct bytes samples = {0};
    owner_new(&o, NULL);
    put_file(&o.world, "long.bin", UNIT_BYTES + 1000, 7);
    json_doc_free(ask(&o, "{\"op\":\"rescan\"}", NULL));
    uint64_t id = id_of(o.volume, "long.bin");
    cr_assert_eq(volume_read_wait(o.volume, id, 0, 4096, &view, &err), 0, "%s", err.msg);
    view_release(&view);
    json_doc_free(ask(&o, "{\"op\":\"flush\"}", NULL));
    cr_assert_lt(cache_where(volume_cache(o.volume), id + 1), 0, "all of it is here");
    for (int i = 0; i < 5; i++)
        bytes_addf(&samples, "%s{\"id\":%llu,\"offset\":1,\"length\":%u}", i ? "," : "",
                   (unsigned long long)id, i < 4 ? UNIT_BYTES + 999 : 10);
    cleanup_free char *request = share_request(&o, samples.data);
    struct json_doc *doc = ask(&o, request, &fd);
    for (size_t i = 0; i < 5; i++)
        cr_expect_str_eq(share_status(doc, i), i < 4 ? "absent" : "here");
    cr_assert_eq(fstat(fd, &st), 0);
    cr_expect_lt(st.st_size, (off_t)UNIT_BYTES, "%lld bytes", (long long)st.st_size);
    unsigned char byte;
    cr_assert_eq(pread(fd, &byte, 1, 0), 1);
    cr_expect_eq(byte, content_at(7, 1));
    close(fd);
    json_doc_free(doc);
    owner_free(&o);
}

Test(ctlserve, another_version_shares_nothing)
{
    struct owner o;
    owner_new(&o, NULL);
    expect_refusal(&o, "{\"op\":\"share\",\"version\":\"ab\",\"ids\":\"1\",\"samples\":[]}",
                   ERR_STALE, "another version");
    expect_refusal(&o, "{\"op\":\"share\",\"version\":\"ab\",\"ids\":\"0\",\"samples\":[]}",
                   ERR_USAGE, "ids");
    cleanup_free char *request = share_request(&o, "{\"id\":0}");
    expect_refusal(&o, request, ERR_USAGE, "id");
    expect_refusal(&o, "{\"op\":\"catalog\",\"version\":\"ab\"}", ERR_NOT_FOUND, "ab");
    owner_free(&o);
}

/* --- connections ----------------------------------------------------------------------------- */

Test(ctlserve, one_client_too_many_is_told_so)
{
    struct owner o;
    int socks[32];
    struct bytes text = {0}, answer = {0};
    struct err err = {0};
    owner_new(&o, NULL);
    bytes_add_str(&text, "{\"op\":\"ping\"}");
    for (int i = 0; i < 32; i++) {
        cr_assert_eq(control_connect(o.path, &socks[i], &err), 0, "%s", err.msg);
        cr_assert_eq(control_send(socks[i], &text, -1, &err), 0);
        cr_assert_eq(control_recv(socks[i], &answer, NULL, &err), 0, "%s", err.msg);
    }
    int extra;
    cr_assert_eq(control_connect(o.path, &extra, &err), 0);
    cr_assert_eq(control_recv(extra, &answer, NULL, &err), 0, "%s", err.msg);
    cr_assert_not_null(strstr(answer.data, "\"limit\""), "%s", answer.data);
    close(extra);
    for (int i = 0; i < 32; i++)
        close(socks[i]);
    bytes_release(&text);
    bytes_release(&answer);
    owner_free(&o);
}

Test(ctlserve, several_requests_on_one_connection)
{
    struct owner o;
    int sock;
    struct bytes text = {0}, answer = {0};
    struct err err = {0};
    owner_new(&o, NULL);
    cr_assert_eq(control_connect(o.path, &sock, &err), 0, "%s", err.msg);
    for (int i = 0; i < 100; i++) {
        bytes_clear(&text);
        bytes_add_str(&text, i % 2 ? "{\"op\":\"ping\"}" : "{\"op\":\"nosuch\"}");
        cr_assert_eq(control_send(sock, &text, -1, &err), 0);
        cr_assert_eq(control_recv(sock, &answer, NULL, &err), 0, "%s", err.msg);
        cr_assert_not_null(strstr(answer.data, i % 2 ? "\"ok\":true" : "\"ok\":false"));
    }
    /* Garbage for a length: the connection ends, the server does not. */
    cr_assert_eq(send(sock, "\xff\xff\xff\xff", 4, 0), 4);
    cr_assert_eq(control_recv(sock, &answer, NULL, &err), -1);
    close(sock);
    json_doc_free(ask(&o, "{\"op\":\"ping\"}", NULL));
    bytes_release(&text);
    bytes_release(&answer);
    owner_free(&o);
}

Test(ctlserve, the_socket_is_the_owners_alone_and_may_lie_deep)
{
    struct owner o;
    struct stat st;
    owner_new(&o, NULL);
    cr_assert_eq(stat(o.path, &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0600);
    control_server_free(o.server);
    char *deep = xasprintf("%s/%0100d", o.world.root, 1);
    cr_assert_eq(mkdir(deep, 0700), 0);
    free(o.path);
    o.path = xasprintf("%s/control.sock", deep);
    free(deep);
    owner_serve(&o);
    json_doc_free(ask(&o, "{\"op\":\"ping\"}", NULL));
    owner_free(&o);
}

/* What comes back for `request` on a socket of the owner's folder; class NONE: an answer. */
static struct err told(const struct owner *o, const char *name, const struct bytes *request,
                       struct bytes *ret)
{
    cleanup_free char *path = xasprintf("%s/%s", o->world.own, name);
    cleanup_close int sock = -1;
    struct err err = {0};
    cr_assert_eq(control_connect(path, &sock, &err), 0, "%s", err.msg);
    if (control_send(sock, request, -1, &err) == 0)
        control_recv(sock, ret, NULL, &err);
    return err;
}

Test(ctlserve, a_guest_learns_where_samples_lie_and_takes_little_memory)
{
    struct owner o;
    cleanup_bytes struct bytes request = {0}, answer = {0};
    owner_new(&o, NULL);
    bytes_add_str(&request, "{\"op\":\"status\"}");
    cr_expect_eq(told(&o, "packs.sock", &request, &answer).class, ERR_NONE);
    cr_expect_not_null(strstr(answer.data, "\"denied\""), "%s", answer.data);

    bytes_clear(&request);
    while (request.len <= 256u << 10)
        bytes_add_char(&request, ' ');
    cr_expect_neq(told(&o, "packs.sock", &request, &answer).class, ERR_NONE, "it was taken");
    cr_expect_eq(told(&o, "control.sock", &request, &answer).class, ERR_NONE);
    cr_expect_not_null(strstr(answer.data, "not JSON"), "%s", answer.data);
    owner_free(&o);
}

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

Test(ctlserve, out_of_descriptors_a_client_waits_and_nothing_spins)
{
    struct owner o;
    struct rlimit all, none;
    struct bytes text = {0};
    cleanup_bytes struct bytes answer = {0};
    struct err err = {0};
    owner_new(&o, NULL);
    bytes_add_str(&text, "{\"op\":\"ping\"}");
    int client = socket(AF_UNIX, SOCK_STREAM, 0), dir = open(o.world.own, O_PATH | O_DIRECTORY);
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "/proc/self/fd/%d/control.sock", dir);
    getrlimit(RLIMIT_NOFILE, &all);
    none = (struct rlimit){3, all.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    cr_assert_eq(connect(client, (struct sockaddr *)&to, sizeof to), 0, "%m");
    double before = cpu_s();
    usleep(500 * 1000);
    double used = cpu_s() - before;
    setrlimit(RLIMIT_NOFILE, &all);
    cr_expect_lt(used, 0.1, "%.3f s of the processor for waiting", used);

    cr_assert_eq(control_send(client, &text, -1, &err), 0);
    cr_assert_eq(control_recv(client, &answer, NULL, &err), 0, "%s", err.msg);
    close(client);
    close(dir);
    bytes_release(&text);
    owner_free(&o);
}

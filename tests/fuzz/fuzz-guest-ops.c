/* What those may ask who see a mount alone (docs/formats/control.md): lines are messages; what
 * comes after an '@' are samples that are asked for of the version that is there. Each has one
 * answer, and none changes anything but leases: all samples are still cached. */
#include <assert.h>
#include <fcntl.h>
#include <ftw.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control-serve.h"
#include "control.h"
#include "mem.h"

#define FILES 6

static char top[] = "/dev/shm/sampan-fuzz-XXXXXX";
static char direct[80];
static struct volume *volume;
static struct control_server *server;
static uint64_t cached;
static struct bytes share; /* the head of a request for samples */

int LLVMFuzzerInitialize(int *argc, char ***argv);

static void must(bool ok, const struct err *err)
{
    if (ok)
        return;
    fprintf(stderr, "%s\n", err->msg);
    abort();
}

static uint64_t samples_cached(void)
{
    struct cache_stat st;
    cache_stat(volume_cache(volume), &st);
    return st.units;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

static void end(void)
{
    control_server_free(server);
    volume_close(volume);
    bytes_release(&share);
    nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void begin_share(void)
{
    struct catalog *c = volume_catalog(volume);
    const struct catalog_info *info = catalog_info(c);
    bytes_addf(&share,
               "{\"op\":\"share\",\"version\":\"%s\",\"ids\":\"%llx\",\"samples\":", info->digest,
               (unsigned long long)info->ids);
    catalog_unref(c);
}

static void put_file(const char *dir, unsigned n)
{
    cleanup_free char *path = xasprintf("%s/%u.jpg", dir, n);
    cleanup_close int fd = open(path, O_WRONLY | O_CREAT, 0600);
    size_t size = 100 + 40000 * (size_t)n; /* several chunks */
    cleanup_free unsigned char *bytes = xmalloc(size);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(n * 31 + i * 2654435761u / 65536);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
        abort();
}

static void status(void *arg, struct bytes *json)
{
    (void)arg;
    bytes_add_str(json, "{}");
}

static void shut_down(void *arg)
{
    (void)arg;
    abort(); /* no guest may */
}

static void ask(const char *socket, const char *request, struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    cleanup_json struct json_doc *doc = NULL;
    bytes_add_str(&text, request);
    must(control_call(socket, &text, NULL, NULL, &doc, NULL, err) == 0, err);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    struct err err = {0};
    (void)argc;
    (void)argv;
    if (!mkdtemp(top))
        abort();
    cleanup_free char *src = xasprintf("%s/src", top), *uri = xasprintf("file://%s", src),
                      *own = xasprintf("%s/own", top), *cache = xasprintf("%s/cache", top),
                      *socket = xasprintf("%s/control.sock", top);
    if (mkdir(src, 0700))
        abort();
    for (unsigned i = 0; i < FILES; i++)
        put_file(src, i);
    struct volume_conf conf = {.set = uri, .dir = own, .memory = 64 << 20, .n_tiers = 1};
    fetch_conf_defaults(&conf.fetch);
    conf.tiers[0] = (struct tier_conf){TIER_SSD, cache, 64 << 20};
    must(volume_open(&volume, &conf, NULL, NULL, &err) == 0, &err);
    struct control_server_conf serve = {.socket_path = socket,
                                        .direct_dir = top,
                                        .volume = volume,
                                        .status = status,
                                        .shutdown = shut_down};
    must(control_serve(&server, &serve, &err) == 0, &err);
    must(control_accept(server, NULL, &err) == 0, &err);
    ask(socket, "{\"op\":\"warmup\"}", &err);
    ask(socket, "{\"op\":\"flush\"}", &err);
    snprintf(direct, sizeof direct, "%s/%s", top, CONTROL_DIRECT_SOCKET);
    begin_share();
    cached = samples_cached();
    assert(cached == FILES);
    atexit(end);
    return 0;
}

/* False: it hung up, as it may on who sends too much. */
static bool exchange(int sock, const uint8_t *line, size_t len)
{
    cleanup_bytes struct bytes msg = {0}, answer = {0};
    int fds[CONTROL_FDS_MAX];
    size_t n_fds = 0;
    struct err err = {0};
    struct json_doc *doc = NULL;
    if (len > 0 && line[0] == '@')
        bytes_addf(&msg, "%s%.*s}", share.data, (int)len - 1, (const char *)line + 1);
    else
        bytes_add(&msg, line, len);
    if (control_send(sock, &msg, -1, NULL) ||
        control_recv_fds(sock, &answer, fds, CONTROL_FDS_MAX, &n_fds, NULL))
        return false;
    if (control_answer(&answer, &doc, &err))
        assert(err.msg[0] && err.class != ERR_BUG && n_fds == 0);
    json_doc_free(doc);
    while (n_fds)
        close(fds[--n_fds]);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int sock;
    struct err err = {0};
    must(control_connect(direct, &sock, &err) == 0, &err);
    for (size_t at = 0, len; at < size; at += len + 1) {
        const uint8_t *line = memchr(data + at, '\n', size - at);
        len = line ? (size_t)(line - data) - at : size - at;
        if (!exchange(sock, data + at, len))
            break;
    }
    close(sock);
    assert(samples_cached() == cached);
    return 0;
}

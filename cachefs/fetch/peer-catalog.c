/*
 * A catalog from another machine's runtime server, into a file. It has an engine of its own: a
 * catalog of a million samples is 150 MB, which should neither wait for reads nor hold them up.
 */
#include "file.h"
#include "peer-internal.h"
#include "secret-file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define BYTES_MAX (64ull << 30)

struct download {
    const char *url, *had;
    struct secret token;
    const char *file;
    int fd;
    uint64_t len;
};

static int build(void *arg, struct http_req *r, struct err *err)
{
    const struct download *d = arg;
    (void)err;
    bytes_add_str(&r->url, d->url);
    if (d->token.text)
        http_header(r, "Authorization", "Bearer %s", d->token.text);
    if (*d->had)
        http_header(r, "If-None-Match", "\"%s\"", d->had);
    return 0;
}

static int take(void *arg, const void *data, size_t len, struct err *err)
{
    struct download *d = arg;
    if (len > BYTES_MAX - d->len)
        return err_set(err, ERR_LIMIT, "it is longer than any catalog");
    if (file_write(d->fd, data, len, d->len))
        return err_sys(err, errno, "write %s", d->file);
    d->len += len;
    return 0;
}

static bool told_to_stop(void *arg)
{
    const struct peer_catalog *c = arg;
    return c->stop && atomic_load(c->stop);
}

static int get(struct fetch *f, const struct fetch_request *r, const struct peer_catalog *c,
               struct err *err)
{
    struct fetch_stopper stopper = {.fetch = f, .told = told_to_stop, .arg = (void *)c};
    if (fetch_stopper_begin(&stopper, err))
        return -1;
    int rc = fetch_sink(f, r, err);
    fetch_stopper_end(&stopper);
    return rc;
}

static int run(struct download *d, const struct peer_catalog *c, struct http_answer *ret,
               struct err *err)
{
    const struct store_conf store_conf = {.ca_file = c->ca_file, .proxy = ""};
    struct fetch_conf conf;
    struct fetch *f;
    struct store *store;
    fetch_conf_defaults(&conf);
    conf.connections = 1;
    conf.max_tries = 1; /* what the sink took of a broken try cannot be taken back here */
    conf.away_ns = 0;
    conf.budget_ns = 3600 * NS_PER_S;
    if (store_open(&store, d->url, &store_conf, err))
        return -1;
    int rc = fetch_new(&f, &conf, err);
    if (!rc) {
        const struct fetch_request r = {
            .store = store, .build = build, .build_arg = d, .answer = ret, .sink = take, .arg = d};
        rc = get(f, &r, c, err);
        fetch_free(f);
    }
    store_close(store);
    return rc;
}

int peer_catalog_fetch(const struct peer_catalog *c, const char *file, struct err *err)
{
    struct download d = {.url = c->url, .had = c->had ? c->had : "", .file = file};
    struct http_answer answer;
    http_answer_init(&answer);
    if (c->token_file && *c->token_file && secret_read(&d.token, c->token_file, err))
        return err_wrap(err, "token file");
    cleanup_close int fd = open(file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int rc = fd < 0 ? err_sys(err, errno, "write %s", file) : 0;
    d.fd = fd;
    if (!rc)
        rc = run(&d, c, &answer, err);
    secret_release(&d.token);
    if (answer.status == 304)
        rc = 0;
    else if (rc && (answer.status == 401 || answer.status == 403))
        err_set(err, ERR_DENIED, "%s: the server refuses the token (give --peer-token-file)",
                c->url);
    else if (rc && answer.status == 404)
        err_set(err, ERR_NOT_FOUND, "%s: no version of that name is kept there", c->url);
    if (rc || answer.status == 304)
        unlink(file);
    return rc ? err_wrap(err, "fetch the catalog") : answer.status != 304;
}

/* Copies of the addresses and of the token file's name, as they are now. */
static size_t copy_peers(struct peer_layer *l, char ***ret, char **ret_token_file)
{
    ACQUIRE(&l->lock);
    size_t n = 0;
    *ret = xcalloc(l->n_peers + 1, sizeof **ret);
    for (size_t i = 0; i < l->n_peers; i++)
        if (l->peers[i])
            (*ret)[n++] = xstrdup(l->peers[i]->url);
    *ret_token_file = l->token_file ? xstrdup(l->token_file) : NULL;
    return n;
}

int peer_catalog_any(struct source *s, const char *digest, const char *file, struct err *err)
{
    struct peer_layer *l = (struct peer_layer *)s;
    cleanup_free char *token_file = NULL;
    struct err why = {0};
    char **urls;
    size_t n = copy_peers(l, &urls, &token_file);
    int rc = -1;
    err_set(&why, ERR_NOT_FOUND, "no other machine keeps version %s", digest);
    for (size_t i = 0; i < n && rc < 0; i++) {
        struct err e = {0};
        cleanup_free char *url = xasprintf("%s/v1/catalog/%s", urls[i], digest);
        const struct peer_catalog c = {
            .url = url, .token_file = token_file, .ca_file = l->conf.ca_file};
        rc = peer_catalog_fetch(&c, file, &e);
        if (rc < 0 && e.class != ERR_NOT_FOUND)
            why = e;
    }
    urls_free(urls, n);
    if (rc < 0 && err)
        *err = why;
    return rc < 0 ? -1 : 0;
}

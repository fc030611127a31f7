/* Who the other machines are: the list as it is set or polled, the token, and what status says. */
#define LOG_MODULE "fetch"
#include "peer-internal.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "hash.h"

#define LIST_BYTES  (256u << 10) /* of a file */
#define TOKEN_BYTES 4096u
#define URL_BYTES   2048u

void urls_free(char **urls, size_t n)
{
    for (size_t i = 0; urls && i < n; i++)
        free(urls[i]);
    free(urls);
}

/* --- parsing, pure ---------------------------------------------------------------------------- */

static int check_url(const char *url, size_t len, struct err *err)
{
    bool tls = len > 8 && strncmp(url, "https://", 8) == 0;
    size_t head = tls ? 8 : 7, host;
    if ((!tls && (len <= 7 || strncmp(url, "http://", 7) != 0)) || len > URL_BYTES)
        return err_set(err, ERR_USAGE, "\"%.*s\": want http://HOST:PORT or https://HOST:PORT",
                       (int)(len < 200 ? len : 200), url);
    for (host = head; host < len && url[host] > ' ' && url[host] < 127; host++)
        if (strchr("/?#@\"\\", url[host]))
            break;
    if (host == head || host < len)
        return err_set(err, ERR_USAGE,
                       "\"%.*s\": want http://HOST:PORT and nothing behind or before it",
                       (int)(len < 200 ? len : 200), url);
    return 0;
}

static int add_url(char ***urls, size_t *n, const char *text, size_t len, struct err *err)
{
    while (len && isspace((unsigned char)*text))
        text++, len--;
    while (len && (isspace((unsigned char)text[len - 1]) || text[len - 1] == '/'))
        len--;
    if (*n == PEERS_MAX)
        return err_set(err, ERR_USAGE, "more than %d machines", PEERS_MAX);
    if (check_url(text, len, err))
        return -1;
    *urls = xrealloc(*urls, (*n + 1) * sizeof **urls);
    (*urls)[(*n)++] = xstrndup(text, len);
    return 0;
}

/* URLs between `separator`s; empty places and, between lines, comments are skipped. The number of
 * the first that is none, from 1; 0: all are. */
static unsigned parse_urls(const char *text, char separator, char ***ret, size_t *n,
                           struct err *err)
{
    for (unsigned number = 1; *text; number++) {
        size_t len = strcspn(text, separator == ',' ? "," : "\n");
        bool blank = strspn(text, " \t\r") >= len || (separator == '\n' && *text == '#');
        if (!blank && add_url(ret, n, text, len, err))
            return number;
        text += len + (text[len] != '\0');
    }
    return 0;
}

static int take_member(const struct json *j, char **urls, size_t n, struct err *err)
{
    int64_t ordinal;
    const char *url;
    if (json_int(j, "ordinal", 0, (int64_t)n - 1, &ordinal, err) || json_str(j, "url", &url, err))
        return -1;
    size_t len = strlen(url);
    while (len && url[len - 1] == '/')
        len--;
    if (!len)
        return 0; /* its address is not known */
    if (check_url(url, len, err))
        return -1;
    free(urls[ordinal]);
    urls[ordinal] = xstrndup(url, len);
    return 0;
}

int members_parse_answer(const void *text, size_t len, char ***ret_urls, size_t *ret_n,
                         struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    int64_t n;
    if (json_parse(&doc, "members", text ? text : "", len, err))
        return -1;
    struct json root = json_root(doc), list = json_get(&root, "members");
    if (json_int(&root, "partitions", 0, PEERS_MAX, &n, err) || json_want_array(&list, err))
        return -1;
    char **urls = xcalloc((size_t)n + 1, sizeof *urls);
    for (size_t i = 0, count = json_count(&list); i < count; i++) {
        struct json one = json_at(&list, i);
        if (take_member(&one, urls, (size_t)n, err)) {
            urls_free(urls, (size_t)n);
            return -1;
        }
    }
    *ret_urls = urls;
    *ret_n = (size_t)n;
    return 0;
}

int version_parse_answer(const void *text, size_t len, char ret_version[CATALOG_DIGEST + 1],
                         bool *ret_pinned, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    const char *version;
    if (json_parse(&doc, "version", text ? text : "", len, err))
        return -1;
    struct json root = json_root(doc);
    if (json_str(&root, "version", &version, err) ||
        json_bool_or(&root, "pinned", false, ret_pinned, err))
        return -1;
    if (!hex_is(version, CATALOG_DIGEST))
        return err_set(err, ERR_CORRUPT, "\"%.80s\" is no version", version);
    memcpy(ret_version, version, CATALOG_DIGEST + 1);
    return 0;
}

/* --- machines --------------------------------------------------------------------------------- */

struct peer *peer_of(struct peer_layer *l, uint32_t partition)
{
    return partition < l->n_peers ? l->peers[partition] : NULL;
}

void peer_ref(struct peer *p)
{
    p->refs++;
}

void peer_unref(struct peer *p)
{
    {
        ACQUIRE(&p->layer->lock);
        if (--p->refs)
            return;
    }
    store_close(p->store);
    free(p->url);
    free(p);
}

bool peer_usable(const struct peer *p, const struct catalog_info *version)
{
    if (!version->ids || !p->listed)
        return false;
    if (p->state == PEER_VERSION)
        return p->ids != version->ids || strcmp(p->version, version->digest) != 0;
    return p->state == PEER_OK || p->state == PEER_UNKNOWN;
}

static int open_server(const struct peer_layer *l, const char *url, struct store **ret,
                       struct err *err)
{
    /* An empty proxy: none, whatever the environment says. They are neighbours. */
    const struct store_conf conf = {.ca_file = l->conf.ca_file, .proxy = ""};
    return store_open(ret, url, &conf, err);
}

static int peer_new(struct peer **ret, struct peer_layer *l, uint32_t partition, const char *url,
                    struct err *err)
{
    struct store *store;
    if (open_server(l, url, &store, err))
        return -1;
    struct peer *p = xcalloc(1, sizeof *p);
    *p = (struct peer){.layer = l,
                       .refs = 1,
                       .partition = partition,
                       .url = xstrdup(url),
                       .store = store,
                       .listed = true,
                       .check_ns = 1};
    p->end[0] = &p->first[0];
    p->end[1] = &p->first[1];
    *ret = p;
    return 0;
}

/* Out of the list: what waits for it goes elsewhere. */
static void peer_retire(struct peer *p)
{
    struct ask *queue;
    {
        ACQUIRE(&p->layer->lock);
        p->listed = false;
        queue = peer_take_queue(p);
    }
    while (queue) {
        struct ask *a = queue;
        queue = a->next;
        ask_next(a, NULL);
    }
    peer_unref(p);
}

/* Lock held. The machine at this place, if it stays the same; referenced. */
static struct peer *kept(struct peer_layer *l, uint32_t k, const char *url)
{
    struct peer *p = peer_of(l, k);
    if (!p || strcmp(p->url, url) != 0)
        return NULL;
    peer_ref(p);
    return p;
}

static int make_peers(struct peer_layer *l, char *const *urls, size_t n, struct peer **ret,
                      struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (!urls[i])
            continue;
        {
            ACQUIRE(&l->lock);
            ret[i] = kept(l, (uint32_t)i, urls[i]);
        }
        if (!ret[i] && peer_new(&ret[i], l, (uint32_t)i, urls[i], err))
            return -1;
    }
    return 0;
}

static void release_peers(struct peer_layer *l, struct peer **peers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool retire = false;
        if (!peers[i])
            continue;
        {
            ACQUIRE(&l->lock);
            retire = peer_of(l, (uint32_t)i) != peers[i];
        }
        if (retire)
            peer_retire(peers[i]);
        else
            peer_unref(peers[i]);
    }
    free(peers);
}

int peers_replace(struct peer_layer *l, char *const *urls, size_t n, struct err *err)
{
    struct peer **peers = xcalloc(n + 1, sizeof *peers), **old;
    size_t n_old;
    if (make_peers(l, urls, n, peers, err)) {
        release_peers(l, peers, n);
        return -1;
    }
    {
        ACQUIRE(&l->lock);
        old = l->peers;
        n_old = l->n_peers;
        l->peers = peers;
        l->n_peers = n;
        atomic_store(&l->on, n > 0);
        watch_poke(l);
    }
    release_peers(l, old, n_old);
    return 0;
}

void peers_drop_all(struct peer_layer *l)
{
    peers_replace(l, NULL, 0, NULL);
    free(l->peers);
    l->peers = NULL;
}

/* --- setting ---------------------------------------------------------------------------------- */

static int read_small(const char *path, size_t max, struct bytes *ret, struct timespec *ret_at,
                      struct err *err)
{
    struct stat st;
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st))
        return err_sys(err, errno, "read %s", path);
    if (!S_ISREG(st.st_mode) || st.st_size > (off_t)max)
        return err_set(err, ERR_USAGE, "read %s: want a file of at most %zu bytes", path, max);
    bytes_reserve(ret, max);
    ssize_t n = read(fd, ret->data, max);
    if (n < 0)
        return err_sys(err, errno, "read %s", path);
    ret->len = (size_t)n;
    ret->data[n] = '\0';
    if (ret_at)
        *ret_at = st.st_mtim;
    return 0;
}

/* The engine of their own: one try each, no patience with a silent machine. */
static int engine_new(const struct peer_layer *l, struct fetch **ret, struct err *err)
{
    struct fetch_conf conf;
    fetch_conf_defaults(&conf);
    conf.max_tries = 1;
    conf.away_ns = 0;
    conf.hedge = false;
    conf.connect_timeout_ns = NS_PER_S;
    /* Whole requests have three times that. */
    conf.try_timeout_ns = l->conf.patience_ns ? l->conf.patience_ns / 3 : 700 * NS_PER_MS;
    conf.log = l->conf.log;
    return fetch_new(ret, &conf, err);
}

static bool engine_runs(struct peer_layer *l)
{
    ACQUIRE(&l->lock);
    return l->fetch;
}

static int engine_start(struct peer_layer *l, struct err *err)
{
    struct fetch *f = NULL;
    if (!engine_runs(l)) {
        if (engine_new(l, &f, err))
            return -1;
        ACQUIRE(&l->lock);
        if (!l->fetch)
            l->fetch = take_ptr(&f);
    }
    fetch_free(f); /* another list was set at the same time */
    return watch_start(l, err);
}

static int set_service(struct peer_layer *l, const char *url, struct err *err)
{
    struct store *store = NULL, *old;
    if (url && open_server(l, url, &store, err))
        return -1;
    char *name = url ? xstrdup(url) : NULL, *old_name;
    {
        ACQUIRE(&l->lock);
        while (l->members_asked) /* its answer names the store */
            cond_wait_for(&l->idle, &l->lock, 10 * NS_PER_MS);
        old = l->service_store;
        old_name = l->service;
        l->service_store = store;
        l->service = name;
        l->members_ns = 0;
        l->members_why[0] = '\0';
        watch_poke(l);
    }
    if (old)
        store_close(old);
    free(old_name);
    return 0;
}

/* What stands there is not repeated: who names a file need not be one who may read it. */
static int parse_file(const char *path, char ***urls, size_t *n, struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    if (read_small(path, LIST_BYTES, &text, NULL, err))
        return -1;
    unsigned line = parse_urls(text.data ? text.data : "", '\n', urls, n, NULL);
    if (!line)
        return 0;
    return err_set(err, ERR_USAGE,
                   "read %s: line %u: want one of at most %d machines, http://HOST:PORT or "
                   "https://HOST:PORT",
                   path, line, PEERS_MAX);
}

static int parse_list(const char *text, char ***urls, size_t *n, bool *ret_service, struct err *err)
{
    *ret_service = false;
    if (!*text)
        return 0;
    if (strchr(text, ':') == NULL || *text == '/' || *text == '.')
        return parse_file(text, urls, n, err);
    if (parse_urls(text, ',', urls, n, err))
        return -1;
    *ret_service = *n == 1 && !strchr(text, ',');
    return 0;
}

bool peer_any(const struct source *s)
{
    return atomic_load(&((const struct peer_layer *)s)->on);
}

int peer_set_list(struct source *s, const char *text, struct err *err)
{
    struct peer_layer *l = (struct peer_layer *)(void *)s;
    char **urls = NULL;
    size_t n = 0;
    bool service;
    int rc = parse_list(text, &urls, &n, &service, err);
    if (!rc && n)
        rc = engine_start(l, err);
    /* The list between two services is empty: no late answer of the old one lands in the new. */
    if (!rc)
        rc = set_service(l, NULL, err);
    if (!rc)
        rc = peers_replace(l, urls, service ? 0 : n, err);
    if (!rc && service)
        rc = set_service(l, urls[0], err);
    urls_free(urls, n);
    return rc ? err_wrap(err, "peers") : 0;
}

/* Lock held. Takes the token of the file if that is new. */
static int take_token(struct peer_layer *l, const char *file, struct err *err)
{
    cleanup_wiped struct bytes text = {0};
    struct timespec at;
    if (read_small(file, TOKEN_BYTES, &text, &at, err))
        return -1;
    size_t len = text.len;
    while (len && isspace((unsigned char)text.data[len - 1]))
        len--;
    bool good = len && memchr(text.data, '\n', len) == NULL;
    if (good) {
        secret_release(&l->token);
        secret_set(&l->token, text.data, len);
        l->token_at = at;
    }
    return good ? 0 : err_set(err, ERR_USAGE, "read %s: want one line, the token", file);
}

void token_refresh(struct peer_layer *l)
{
    struct stat st;
    if (!l->token_file || stat(l->token_file, &st) ||
        (st.st_mtim.tv_sec == l->token_at.tv_sec && st.st_mtim.tv_nsec == l->token_at.tv_nsec))
        return;
    take_token(l, l->token_file, NULL); /* one that can't be read now changes nothing */
}

int peer_set_token_file(struct source *s, const char *file, struct err *err)
{
    struct peer_layer *l = (struct peer_layer *)(void *)s;
    ACQUIRE(&l->lock);
    if (*file && take_token(l, file, err))
        return err_wrap(err, "peer-token-file");
    if (!*file)
        secret_release(&l->token);
    free(l->token_file);
    l->token_file = *file ? xstrdup(file) : NULL;
    for (size_t i = 0; i < l->n_peers; i++) /* whom we had no token for is asked again at once */
        if (l->peers[i] && l->peers[i]->state == PEER_DENIED)
            l->peers[i]->check_ns = 1;
    watch_poke(l);
    return 0;
}

/* --- status ----------------------------------------------------------------------------------- */

static void write_peer(const struct peer *p, struct json_writer *w)
{
    static const char *const states[] = {"unknown", "ok", "lost", "version", "denied"};
    jw_object(w, NULL);
    jw_uint(w, "partition", p->partition);
    jw_str(w, "url", p->url);
    jw_str(w, "state", states[p->state]);
    jw_uint(w, "requests", counter_get(&p->requests));
    jw_uint(w, "samples", counter_get(&p->samples));
    jw_uint(w, "bytes", counter_get(&p->bytes));
    jw_uint(w, "absent", counter_get(&p->absent));
    jw_uint(w, "errors", counter_get(&p->errors));
    jw_uint(w, "bad", counter_get(&p->bad));
    jw_uint(w, "hedges", counter_get(&p->hedges));
    jw_str(w, "why", p->state == PEER_OK ? "" : p->why);
    jw_end(w);
}

void peer_status(struct source *s, struct json_writer *w)
{
    struct peer_layer *l = (struct peer_layer *)(void *)s;
    ACQUIRE(&l->lock);
    jw_array(w, "peers");
    for (size_t i = 0; i < l->n_peers; i++)
        if (l->peers[i])
            write_peer(l->peers[i], w);
    jw_end(w);
    jw_str(w, "peers_why", l->members_why);
}

/*
 * sync --worker: runtime servers of other nodes each do a share of the keys, as a job; this process
 * follows the jobs and adds up what they say. Each run has jobs of its own; what an earlier run has
 * copied they skip. A server that does not answer is asked again for a while: its job goes on
 * without us, and over its restart.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "clock.h"
#include "hash.h"
#include "members.h"
#include "mem.h"
#include "object.h"
#include "secret-file.h"
#include "server.h"
#include "workers-internal.h"

#define TURN_US       (200 * 1000)
#define CALL_NS       (15 * NS_PER_S)
#define LOST_AFTER_NS (300 * NS_PER_S)

struct worker {
    char *url, *id;
    bool asked, ended, failed;
    uint64_t lost_ns; /* since when it does not answer; 0: it does */
    bool named;       /* as lost, on stderr */
    struct sync_counts counts;
    uint64_t total;
    struct json_doc *last; /* its job, when it had ended */
    char *error;
};

struct workers {
    const struct sync_options *o;
    const struct sync_conf *c;
    struct secret token;
    struct worker *all;
    unsigned n;
};

/* --- who -------------------------------------------------------------------------------------- */

/* HOST, HOST:PORT or a URL. */
static int url_of(const char *word, size_t len, char **ret, struct err *err)
{
    cleanup_member_list struct member_list list = {0};
    bool url = memmem(word, len, "://", 3) != NULL;
    const char *colon = memrchr(word, ':', len);
    bool port = url || (colon && !memchr(colon, ']', len - (size_t)(colon - word)));
    cleanup_free char *text = xasprintf("%s%.*s", url ? "" : "http://", (int)len, word);
    cleanup_free char *whole =
        port ? xstrdup(text) : xasprintf("%s:%u", text, (unsigned)SERVER_PORT);
    if (members_parse(whole, false, 1, &list, err))
        return err_wrap(err, "--worker");
    *ret = xstrdup(list.urls[0]);
    return 0;
}

static int name_workers(struct workers *w, struct err *err)
{
    unsigned char random[8];
    char name[17];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return err_sys(err, errno, "random bytes");
    hex_encode(name, random, sizeof random);
    for (const char *p = w->o->worker; *p;) {
        size_t len = strcspn(p, ",");
        if (len) {
            w->all = xrealloc(w->all, (w->n + 1) * sizeof *w->all);
            w->all[w->n] = (struct worker){.id = xasprintf("sync-%s-%u", name, w->n)};
            if (url_of(p, len, &w->all[w->n++].url, err))
                return -1;
        }
        p += len + (p[len] == ',');
    }
    return w->n ? 0 : err_set(err, ERR_USAGE, "--worker: no host is named");
}

/* --- what ------------------------------------------------------------------------------------- */

static bool is_local(const char *uri)
{
    return !strstr(uri, "://") || store_uri_folder(uri);
}

/* What other nodes cannot do for us. */
static int check(const struct sync_options *o, const struct sync_conf *c, struct err *err)
{
    const struct {
        bool given;
        const char *name;
    } alone[] = {{o->pack > 0, "pack"},
                 {o->repack, "repack"},
                 {o->share != NULL, "share"},
                 {o->files_from != NULL, "files-from"},
                 {o->limit > 0, "limit"},
                 {o->dry, "dry"},
                 {o->store.proxy && *o->store.proxy, "proxy"},
                 {o->store.webhdfs_port != strtol(WEBHDFS_PORT, NULL, 10), "webhdfs-port"},
                 {o->store.user && *o->store.user, "webhdfs-user"},
                 {o->store.no_sign_request, "no-sign-request"},
                 {o->store.requester_pays, "requester-pays"},
                 {o->store.no_store_sums, "no-store-sums"},
                 {o->store.path_style, "path-style"}};
    for (size_t i = 0; i < COUNT(alone); i++)
        if (alone[i].given)
            return err_set(err, ERR_USAGE, "--worker goes with no --%s", alone[i].name);
    if (o->store.credentials || o->dst_credentials)
        return err_set(err, ERR_USAGE,
                       "--worker goes with no --credentials: the servers have keys of their own");
    for (size_t i = 0; i < c->n_sources; i++)
        if (is_local(c->sources[i]))
            return err_set(err, ERR_USAGE, "%s: the workers cannot see a folder of this machine",
                           c->sources[i]);
    return is_local(c->destination)
               ? err_set(err, ERR_USAGE, "%s: the workers cannot see a folder of this machine",
                         c->destination)
               : 0;
}

static void write_flags(struct json_writer *w, const struct sync_conf *c)
{
    const struct {
        const char *key;
        bool on;
    } flags[] = {{"update", c->update},
                 {"forceUpdate", c->force_update},
                 {"existing", c->existing},
                 {"ignoreExisting", c->ignore_existing},
                 {"checkNew", c->check_new},
                 {"checkAll", c->check_all},
                 {"deleteSrc", c->delete_src},
                 {"deleteDst", c->delete_dst},
                 {"allowEmpty", c->allow_empty},
                 {"dirs", c->dirs},
                 {"perms", c->perms},
                 {"links", c->links},
                 {"matchFullPath", c->match_full_path}};
    for (size_t i = 0; i < COUNT(flags); i++)
        if (flags[i].on)
            jw_bool(w, flags[i].key, true);
}

static void write_text(struct json_writer *w, const char *key, const char *text)
{
    if (text)
        jw_str(w, key, text);
}

/* A limit of bandwidth is shared by all. */
static void write_job(const struct workers *all, unsigned i, struct bytes *ret)
{
    const struct sync_conf *c = all->c;
    cleanup_free char *share = xasprintf("%u/%u", i, all->n);
    struct json_writer w;
    jw_init(&w, ret);
    jw_object(&w, NULL);
    jw_str(&w, "id", all->all[i].id);
    jw_str(&w, "type", "sync");
    jw_object(&w, "options");
    jw_str(&w, "scope", "node");
    jw_str(&w, "share", share);
    jw_array(&w, "sources");
    for (size_t k = 0; k < c->n_sources; k++)
        jw_str(&w, NULL, c->sources[k]);
    jw_end(&w);
    jw_str(&w, "destination", c->destination);
    jw_array(&w, "rules");
    for (size_t k = 0; k < c->n_rules; k++) {
        jw_object(&w, NULL);
        jw_str(&w, c->rules[k].include ? "include" : "exclude", c->rules[k].pattern);
        jw_end(&w);
    }
    jw_end(&w);
    jw_uint(&w, "threads", c->threads);
    jw_uint(&w, "bandwidth", (c->bandwidth + all->n - 1) / all->n);
    write_text(&w, "start", c->start);
    write_text(&w, "end", c->end);
    write_text(&w, "endpoint", c->from.endpoint);
    write_text(&w, "region", c->from.region);
    write_text(&w, "destinationEndpoint", c->to.endpoint);
    write_text(&w, "destinationRegion", c->to.region);
    write_flags(&w, c);
    jw_end(&w);
    jw_end(&w);
}

/* --- following -------------------------------------------------------------------------------- */

static int call(const struct workers *all, const struct worker *w, const char *method,
                const struct bytes *body, struct json_doc **ret, struct err *err)
{
    const struct member_peer to = {w->url, all->o->store.ca_file, all->token.text};
    struct member_answer answer = {0};
    char unsaid[48];
    const char *why = unsaid;
    cleanup_json struct json_doc *doc = NULL;
    cleanup_free char *path = body ? xstrdup("/v1/jobs") : xasprintf("/v1/jobs/%s", w->id);
    int rc = member_request(&to, method, path, body, CALL_NS, &answer, err);
    unsigned status = rc ? 0 : answer.status;
    bool refused = status >= 300; /* in whose words? A proxy before the server has others */
    if (!rc)
        rc = json_parse(&doc, "job", answer.body.data, answer.body.len, refused ? NULL : err);
    bytes_release(&answer.body);
    if (rc && !refused)
        return err_wrap(err, "%s", w->url);
    if (!refused) {
        *ret = take_ptr(&doc);
        return 0;
    }
    snprintf(unsaid, sizeof unsaid, "it answers with status %u", status);
    struct json root = doc ? json_root(doc) : (struct json){0};
    json_str(&root, "error", &why, NULL);
    enum err_class class = status >= 500 || status == 429 ? ERR_TRANSIENT
                           : status == 401                ? ERR_DENIED
                           : status == 404                ? ERR_NOT_FOUND
                                                          : ERR_USAGE;
    return err_set(err, class, "%s: %s%s", w->url, why,
                   status == 401 ? " (give --token-file)" : "");
}

static void take_result(struct worker *w, const struct json *r)
{
    w->counts = (struct sync_counts){.found = json_uint_at(r, "found"),
                                     .found_bytes = json_uint_at(r, "found_bytes"),
                                     .excluded = json_uint_at(r, "excluded"),
                                     .copied = json_uint_at(r, "copied"),
                                     .copied_bytes = json_uint_at(r, "copied_bytes"),
                                     .skipped = json_uint_at(r, "skipped"),
                                     .skipped_bytes = json_uint_at(r, "skipped_bytes"),
                                     .checked = json_uint_at(r, "checked"),
                                     .checked_bytes = json_uint_at(r, "checked_bytes"),
                                     .deleted = json_uint_at(r, "deleted"),
                                     .deleted_src = json_uint_at(r, "deleted_src"),
                                     .extra = json_uint_at(r, "extra"),
                                     .failed = json_uint_at(r, "failed"),
                                     .aborted_uploads = json_uint_at(r, "aborted_uploads"),
                                     .resumed_bytes = json_uint_at(r, "resumed_bytes")};
    json_num(r, "seconds", &w->counts.seconds, NULL);
}

/* Takes `doc` over. */
static void take(struct worker *w, struct json_doc *doc)
{
    struct json job = json_root(doc), progress = json_get(&job, "progress");
    const char *state = "", *error = "";
    json_str(&job, "state", &state, NULL);
    json_str(&job, "error", &error, NULL);
    w->asked = true;
    w->lost_ns = 0;
    w->total = json_uint_at(&progress, "total");
    w->counts.copied = json_uint_at(&progress, "items");
    w->counts.copied_bytes = json_uint_at(&progress, "bytes");
    w->counts.found_bytes = json_uint_at(&progress, "total_bytes");
    w->failed = strcmp(state, "failed") == 0 || strcmp(state, "cancelled") == 0;
    w->ended = w->failed || strcmp(state, "succeeded") == 0;
    json_doc_free(w->last);
    w->last = doc;
    if (!w->ended)
        return;
    struct json result = json_get(&job, "result");
    if (json_want_object(&result, NULL) == 0)
        take_result(w, &result);
    /* Of objects that failed alone the failures speak. */
    if (w->failed && !w->counts.failed)
        w->error = xasprintf("%s: %s", w->url, *error ? error : state);
}

/* -1: it is over with this worker. */
static int lose(struct worker *w, const struct err *why, struct err *err)
{
    uint64_t now = clock_mono_ns();
    w->lost_ns = w->lost_ns ? w->lost_ns : now;
    if (!w->named && w->asked)
        fprintf(stderr, "sampan sync: a worker is lost, and asked again: %s\n", why->msg);
    w->named = true;
    /* One that never answered is a wrong name rather than a restart. */
    bool transient = why->class == ERR_TRANSIENT || why->class == ERR_NOT_FOUND;
    if (w->asked && transient && now - w->lost_ns < LOST_AFTER_NS)
        return 0;
    if (err)
        *err = *why;
    return -1;
}

static int step(const struct workers *all, unsigned i, struct err *err)
{
    struct worker *w = &all->all[i];
    cleanup_bytes struct bytes body = {0};
    struct json_doc *doc = NULL;
    struct err why = {0};
    if (w->ended)
        return 0;
    if (!w->asked || w->lost_ns)
        write_job(all, i, &body); /* also to one that is back: it may have lost its jobs */
    if (call(all, w, body.len ? "POST" : "GET", body.len ? &body : NULL, &doc, &why))
        return lose(w, &why, err);
    take(w, doc);
    return 0;
}

static void cancel_all(const struct workers *all)
{
    for (unsigned i = 0; i < all->n; i++) {
        struct json_doc *doc = NULL;
        if (all->all[i].asked && !all->all[i].ended &&
            call(all, &all->all[i], "DELETE", NULL, &doc, NULL) == 0)
            json_doc_free(doc);
    }
}

static void add_counts(struct sync_counts *sum, const struct sync_counts *n)
{
    sum->found += n->found;
    sum->found_bytes += n->found_bytes;
    sum->excluded += n->excluded;
    sum->copied += n->copied;
    sum->copied_bytes += n->copied_bytes;
    sum->skipped += n->skipped;
    sum->skipped_bytes += n->skipped_bytes;
    sum->checked += n->checked;
    sum->checked_bytes += n->checked_bytes;
    sum->deleted += n->deleted;
    sum->deleted_src += n->deleted_src;
    sum->extra += n->extra;
    sum->failed += n->failed;
    sum->aborted_uploads += n->aborted_uploads;
    sum->resumed_bytes += n->resumed_bytes;
    sum->seconds = n->seconds > sum->seconds ? n->seconds : sum->seconds;
}

static uint64_t sum_up(const struct workers *all, struct sync_counts *ret)
{
    uint64_t total = 0;
    *ret = (struct sync_counts){0};
    for (unsigned i = 0; i < all->n; i++) {
        add_counts(ret, &all->all[i].counts);
        total += all->all[i].total;
    }
    return total;
}

static int follow(const struct workers *all, const struct sync_watch *watch,
                  struct sync_counts *ret, struct err *err)
{
    for (;;) {
        bool ended = true;
        for (unsigned i = 0; i < all->n; i++) {
            if (step(all, i, err))
                return -1;
            ended = ended && all->all[i].ended;
        }
        uint64_t total = sum_up(all, ret);
        watch->progress(watch->arg, total ? SYNC_COPYING : SYNC_LISTING, ret, total);
        if (ended)
            return 0;
        if (atomic_load(all->c->stop))
            return err_set(err, ERR_CANCELLED, "told to stop");
        usleep(TURN_US);
    }
}

/* --- the end ---------------------------------------------------------------------------------- */

static void tell_failures(const struct worker *w, const struct sync_watch *watch)
{
    if (!w->last)
        return;
    struct json job = json_root(w->last), result = json_get(&job, "result");
    struct json failures = json_get(&result, "failures");
    for (size_t i = 0; i < json_count(&failures); i++) {
        struct json one = json_at(&failures, i);
        const char *path = "?", *why = "?";
        json_str(&one, "path", &path, NULL);
        json_str(&one, "why", &why, NULL);
        watch->failed(watch->arg, path, why);
    }
}

static int judge(const struct workers *all, const struct sync_watch *watch, struct err *err)
{
    const char *first = NULL;
    for (unsigned i = 0; i < all->n; i++) {
        tell_failures(&all->all[i], watch);
        if (all->all[i].error && !first)
            first = all->all[i].error;
    }
    return first ? err_set(err, ERR_FAILED, "worker %s", first) : 0;
}

int workers_sync(const struct sync_options *o, const struct sync_conf *c,
                 const struct sync_watch *watch, struct sync_counts *ret, struct err *err)
{
    struct workers all = {.o = o, .c = c};
    *ret = (struct sync_counts){0};
    int rc = check(o, c, err);
    if (!rc && o->token_file)
        rc = secret_read(&all.token, o->token_file, err) ? err_wrap(err, "--token-file") : 0;
    if (!rc)
        rc = name_workers(&all, err);
    if (!rc) {
        rc = follow(&all, watch, ret, err);
        rc = rc ? rc : judge(&all, watch, err);
        cancel_all(&all);
    }
    for (unsigned i = 0; i < all.n; i++) {
        free(all.all[i].url);
        free(all.all[i].id);
        free(all.all[i].error);
        json_doc_free(all.all[i].last);
    }
    free(all.all);
    secret_release(&all.token);
    return rc;
}

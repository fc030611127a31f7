/*
 * A version that is served while its file still arrives (--catalog URI/DIGEST, an object of a
 * store): a mount need not wait until hundreds of megabytes are here.
 *
 * The file is cut into chunks. Some threads bring them in order; who reads what is not here yet
 * brings that chunk himself, before the others. A chunk is ABSENT, FLYING (one thread has it) or
 * HERE, and goes one way, or back to ABSENT where it could not be had: then whoever waits tries
 * himself, and his failure is his answer.
 *
 *   DIGEST.catalog.part       the file, as long as it will be
 *   DIGEST.catalog.part.map   what it is of, and a byte for each chunk that is in it
 *
 * A byte of the map is written after its chunk, so what it says is true however this process ends:
 * the next one goes on, and needs the store only for what is missing. Another boot believes none of
 * it. Once it is whole its rows are summed, as its name says they must be, and it is made durable:
 * only then it gets that name. Until then the store is believed (its ETag, and the length); where
 * it was wrong, nothing of the catalog is believed any more.
 *
 * To write all of it takes a processor for seconds, just when pods start. So the threads begin when
 * readers have been content for a moment, and are nice().
 *
 * An engine of its own moves the bytes: reads of samples look things up here on the threads of the
 * volume's engine, which must not wait for itself. A bandwidth limit is halved between the two.
 */
#define LOG_MODULE "volume"
#include "arrive-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "early.h"
#include "file.h"
#include "log.h"

#define RUN         4u /* chunks that a bringer asks for at once */
#define CONNECTIONS 16u
#define BUDGET_NS   (20 * NS_PER_S)   /* readers wait no longer for a dead store */
#define QUIET_NS    (500 * NS_PER_MS) /* without a reader that waited: it may begin, */
#define QUIET_MAX   (3 * NS_PER_S)    /* and so long after the start it does */
#define NICE        10
#define PAUSE_NS    NS_PER_S        /* between tries of what nobody waits for; doubled, */
#define PAUSE_MAX   (30 * NS_PER_S) /* up to here */

/* --- chunks ----------------------------------------------------------------------------------- */

/* Chunks [first, first + n) into the file. */
static int bring(struct arrival *a, size_t first, size_t n, enum prio prio, struct err *err)
{
    uint64_t off = (uint64_t)first * CHUNK, left = a->head.size - off;
    uint32_t len = left < (uint64_t)n * CHUNK ? (uint32_t)left : (uint32_t)n * CHUNK;
    static const unsigned char here[RUN] = {HERE, HERE, HERE, HERE};
    cleanup_free char *buf = xmalloc(len);
    const struct fetch_get g = {.store = a->store,
                                .key = a->digest,
                                .key_len = CATALOG_DIGEST,
                                .off = off,
                                .len = len,
                                .object_size = a->head.size,
                                .mtime_ns = a->head.mtime_ns,
                                .etag = a->head.etag,
                                .dest = buf,
                                .prio = prio};
    struct err e = {0};
    if (fetch_get_wait(a->fetch, &g, &e)) {
        if (e.class == ERR_STALE)
            return err_set(err, ERR_STALE,
                           "version %.12s: %s is gone, or another, since it began to come (put it "
                           "there again; or unmount, and mount again)",
                           a->digest, a->digest);
        if (err)
            *err = e;
        return err_wrap(err, "bring version %.12s", a->digest);
    }
    if (file_write(a->fd, buf, len, off) || file_write(a->map_fd, here, n, MAP_HEAD + first))
        return err_sys(err, errno, "write %s", a->part);
    return 0;
}

/* `n` of them were FLYING for the caller. `why`: without a class, they are here. */
static void landed(struct arrival *a, size_t first, size_t n, const struct err *why)
{
    ACQUIRE(&a->lock);
    bool good = !why->class;
    memset(a->state + first, good ? HERE : ABSENT, n);
    if (!a->stop)
        a->why = *why;
    if (good)
        a->n_here += n;
    else if (first < a->next)
        a->next = first;
    cond_broadcast(&a->changed);
}

/* Has the chunk been brought by somebody, or is it the caller's to bring? -1: it is to stop. */
static int await_chunk(struct arrival *a, size_t i, struct err *err)
{
    ACQUIRE(&a->lock);
    while (a->state[i] == FLYING && !a->stop && !a->bad)
        cond_wait(&a->changed, &a->lock);
    if (a->bad)
        return err_set(err, a->name_err.class, "%s", a->name_err.msg);
    if (a->state[i] == HERE)
        return HERE;
    if (a->stop)
        return err_set(err, ERR_CANCELLED, "the volume is closing");
    a->state[i] = FLYING;
    a->asked_ns = clock_mono_ns();
    return ABSENT;
}

static int wait_for_range(void *arg, uint64_t off, uint64_t len, struct err *err)
{
    struct arrival *a = arg;
    for (size_t i = (size_t)(off / CHUNK); i <= (size_t)((off + len - 1) / CHUNK); i++) {
        int is = await_chunk(a, i, err);
        if (is < 0)
            return -1;
        if (is == HERE)
            continue;
        struct err why = {0};
        int rc = bring(a, i, 1, PRIO_READER, &why);
        landed(a, i, 1, &why);
        if (rc) {
            if (err)
                *err = why;
            return -1;
        }
    }
    return 0;
}

static int wait_for_name(void *arg, uint64_t wait_ns, struct err *err)
{
    struct arrival *a = arg;
    uint64_t end = clock_mono_ns() + wait_ns, now;
    ACQUIRE(&a->lock);
    a->hurry = true;
    cond_broadcast(&a->changed);
    while (!a->named && !a->stop && !a->name_err.class && (now = clock_mono_ns()) < end)
        cond_wait_for(&a->changed, &a->lock, end - now);
    if (a->named)
        return 0;
    if (a->name_err.class) {
        if (err)
            *err = a->name_err;
        return -1;
    }
    return err_set(err, a->stop ? ERR_CANCELLED : ERR_TRANSIENT,
                   "version %.12s is still on its way: %zu of %zu MiB (try again)", a->digest,
                   a->n_here * CHUNK >> 20, a->n_chunks * CHUNK >> 20);
}

/* --- the threads that bring all of it --------------------------------------------------------- */

/* The next run of chunks that nobody has. 0: there is none. */
static size_t claim(struct arrival *a, size_t *ret_first)
{
    size_t n = 0;
    ACQUIRE(&a->lock);
    while (a->next < a->n_chunks && a->state[a->next] != ABSENT)
        a->next++;
    *ret_first = a->next;
    while (!a->stop && !a->bad && n < RUN && a->next < a->n_chunks && a->state[a->next] == ABSENT) {
        a->state[a->next++] = FLYING;
        n++;
    }
    return n;
}

/* Said once, however many fail. What is there of another object by now is of no use. */
static void failed(struct arrival *a, const struct err *err)
{
    bool first, other = err->class == ERR_STALE && arrival_is_another(a);
    {
        ACQUIRE(&a->lock);
        first = !a->warned && !a->stop;
        a->warned = true;
        if (other) {
            a->bad = true;
            a->name_err = *err;
            cond_broadcast(&a->changed);
        }
    }
    if (other)
        arrival_remove_files(a);
    if (first)
        log_warn(a->volume->conf.log, "the catalog does not come%s: %s",
                 other ? "" : ", it is tried again", err->msg);
}

static void pause_for(struct arrival *a, uint64_t ns)
{
    uint64_t end = clock_mono_ns() + ns, now;
    ACQUIRE(&a->lock);
    while (!a->stop && (now = clock_mono_ns()) < end)
        cond_wait_for(&a->changed, &a->lock, end - now);
}

/* Waits for what others have. 1: all of it is here, 0: something failed and is to be brought, -1:
 * it is to stop. */
static int await_others(struct arrival *a)
{
    ACQUIRE(&a->lock);
    while (!a->stop && !a->bad && a->n_here < a->n_chunks && a->next >= a->n_chunks)
        cond_wait(&a->changed, &a->lock);
    return a->stop || a->bad ? -1 : a->n_here == a->n_chunks;
}

static void await_quiet(struct arrival *a)
{
    ACQUIRE(&a->lock);
    for (;;) {
        uint64_t now = clock_mono_ns(), quiet = a->asked_ns + QUIET_NS;
        uint64_t latest = a->begun_ns + QUIET_MAX, until = quiet < latest ? quiet : latest;
        if (a->stop || a->hurry || now >= until)
            return;
        cond_wait_for(&a->changed, &a->lock, until - now);
    }
}

static bool bring_all(struct arrival *a)
{
    uint64_t pause = PAUSE_NS;
    await_quiet(a);
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); /* of this thread; without it, it works too */
    for (;;) {
        size_t first, n = claim(a, &first);
        if (n == 0) {
            int all = await_others(a);
            if (all)
                return all > 0;
            continue;
        }
        struct err err = {0};
        int rc = bring(a, first, n, PRIO_WARMUP, &err);
        landed(a, first, n, &err);
        if (rc == 0) {
            pause = PAUSE_NS;
            continue;
        }
        failed(a, &err);
        pause_for(a, pause);
        pause = 2 * pause < PAUSE_MAX ? 2 * pause : PAUSE_MAX;
    }
}

static int settle(const struct arrival *a, struct err *err)
{
    if (fchmod(a->fd, 0444) || fsync(a->fd))
        return err_sys(err, errno, "make %s durable", a->part);
    return 0;
}

/* The version's name, for what is whole and on the disk. */
static int give_name(struct arrival *a, struct err *err)
{
    if (settle(a, err) ||
        catalog_put_file(a->folder, a->part, a->digest, !arrival_has_versions(a->folder), err))
        return -1;
    arrival_remove_files(a);
    return 0;
}

/* Whoever sums the rows does not keep a volume from closing. */
static int wait_unless_stopped(void *arg, uint64_t off, uint64_t len, struct err *err)
{
    struct arrival *a = arg;
    (void)off, (void)len;
    ACQUIRE(&a->lock);
    return a->stop ? err_set(err, ERR_CANCELLED, "the volume is closing") : 0;
}

/* The rows, whoever of them is waited for by `wait`. */
static int open_rows(struct arrival *a, int (*wait)(void *, uint64_t, uint64_t, struct err *),
                     struct catalog **ret, struct err *err)
{
    const struct catalog_pages pages = {
        .wait = wait, .whole = wait_for_name, .arg = a, .fd = a->fd, .size = a->head.size};
    return catalog_open_arriving(ret, a->path, &pages, err);
}

static int check_name(const struct arrival *a, struct catalog *c, struct err *err)
{
    const char *digest = catalog_info(c)->digest;
    return strcmp(digest, a->digest) == 0
               ? 0
               : err_set(err, ERR_CORRUPT, "it is version %.12s, another than its name says",
                         digest);
}

static int verify(struct arrival *a, struct err *err)
{
    struct catalog *c;
    if (open_rows(a, wait_unless_stopped, &c, err))
        return -1;
    int rc = check_name(a, c, err) ? -1 : catalog_verify(c, err);
    catalog_unref(c);
    return rc;
}

static void finish(struct arrival *a)
{
    struct err err = {0};
    struct volume *v = a->volume;
    int rc = verify(a, &err);
    bool bad = rc && err.class == ERR_CORRUPT;
    if (rc && err.class == ERR_CANCELLED)
        return; /* another process goes on */
    if (bad)
        arrival_remove_files(a);
    rc = rc ? rc : give_name(a, &err);
    if (bad) {
        log_error(v->conf.log,
                  "the catalog that came is not that version, its names are refused: %s", err.msg);
        err_set(&err, ERR_CORRUPT,
                "what came from %s%s is not that version (put it there again; unmount, and mount "
                "again to bring it anew)",
                store_uri(a->store), a->digest);
    } else if (rc) {
        log_warn(v->conf.log, "the catalog that came cannot be kept: %s", err.msg);
    } else {
        log_info(v->conf.log, "the catalog is here as a whole digest=%.12s bytes=%llu", a->digest,
                 (unsigned long long)a->head.size);
    }
    {
        ACQUIRE(&a->lock);
        a->named = rc == 0;
        a->bad = bad;
        a->name_err = err;
        cond_broadcast(&a->changed);
    }
    volume_share_bandwidth(v);
}

static void *first_main(void *arg)
{
    struct arrival *a = arg;
    if (bring_all(a))
        finish(a);
    return NULL;
}

static void *other_main(void *arg)
{
    bring_all(arg);
    return NULL;
}

/* `first`: what one of them does; the others only bring. */
static int start_threads(struct arrival *a, void *(*first)(void *), struct err *err)
{
    for (; a->n_threads < BRINGERS; a->n_threads++) {
        int e = thread_start(&a->threads[a->n_threads], "bring-catalog",
                             a->n_threads ? other_main : first, a);
        if (e && a->n_threads == 0)
            return err_thread(err, e, "start a thread that brings the catalog");
        if (e)
            break; /* fewer will do */
    }
    return 0;
}

/* --- life ------------------------------------------------------------------------------------- */

void arrival_stop(struct volume *v)
{
    struct arrival *a = v->arrival;
    if (!a)
        return;
    bool was_told;
    {
        ACQUIRE(&a->lock);
        was_told = a->stop;
        a->stop = true;
        cond_broadcast(&a->changed);
    }
    if (a->fetch && !was_told)
        fetch_stop(a->fetch);
    while (a->n_threads > 0)
        pthread_join(a->threads[--a->n_threads], NULL);
}

void arrival_free(struct volume *v)
{
    struct arrival *a = v->arrival;
    if (!a)
        return;
    arrival_stop(v);
    v->arrival = NULL;
    if (a->fetch)
        fetch_free(a->fetch);
    if (a->store)
        store_close(a->store);
    arrival_close_files(a);
    cond_destroy(&a->changed);
    lock_destroy(&a->lock);
    free(a->state);
    free(a->folder);
    free(a->path);
    free(a->part);
    free(a->map);
    free(a);
}

bool arrival_goes_on(struct volume *v)
{
    struct arrival *a = v->arrival;
    if (!a)
        return false;
    ACQUIRE(&a->lock);
    return a->n_here < a->n_chunks;
}

void arrival_set_bandwidth(struct volume *v, uint64_t bytes_per_s)
{
    fetch_set_bandwidth(v->arrival->fetch, bytes_per_s);
}

bool arrival_is_refused(struct volume *v)
{
    struct arrival *a = v->arrival;
    if (!a)
        return false;
    ACQUIRE(&a->lock);
    return a->bad;
}

void arrival_status(struct volume *v, struct json_writer *w)
{
    struct arrival *a = v->arrival;
    if (!a)
        return;
    ACQUIRE(&a->lock);
    uint64_t bytes = (uint64_t)a->n_here * CHUNK;
    const struct err *why = a->name_err.class ? &a->name_err : &a->why;
    if (a->n_here == a->n_chunks && !why->class)
        return;
    jw_object(w, "catalog_arriving");
    jw_uint(w, "bytes", bytes < a->head.size ? bytes : a->head.size);
    jw_uint(w, "total", a->head.size);
    jw_bool(w, "refused", a->bad);
    jw_str(w, "why", why->msg);
    jw_end(w);
}

static int arrival_new(struct volume *v, const char *folder, struct err *err)
{
    struct arrival *a = xcalloc(1, sizeof *a);
    struct fetch_conf conf = v->conf.fetch;
    a->volume = v;
    a->fd = a->map_fd = -1;
    a->begun_ns = a->asked_ns = clock_mono_ns();
    lock_init(&a->lock, RANK_CATALOG, "arrival");
    cond_init(&a->changed);
    v->arrival = a; /* volume_close() undoes it from wherever it got to */
    conf.connections = CONNECTIONS;
    conf.budget_ns = BUDGET_NS;
    conf.hedge = false;
    conf.counts = NULL; /* these are no reads of samples */
    a->folder = xstrdup(folder);
    if (arrival_open_store(a, &v->conf, err) || fetch_new(&a->fetch, &conf, err))
        return -1;
    a->path = catalog_version_file(folder, a->digest);
    return arrival_open_files(a, err);
}

/* The one that is here already, as a whole. */
static int find_whole(const char *folder, const char *digest, struct catalog **ret)
{
    cleanup_free char *path = catalog_version_file(folder, digest);
    return early_is_lost(path) ? -1 : catalog_open(ret, path, NULL);
}

/* Ids of a folder that has versions are compared with theirs (adopt.c): that takes all of it. */
static int adopt_whole(struct arrival *a, struct catalog **ret, struct err *err)
{
    a->hurry = true;
    if (start_threads(a, other_main, err) || wait_for_range(a, 0, a->head.size, err) ||
        verify(a, err) || settle(a, err) || version_adopt(a->part, a->folder, ret, err))
        return -1;
    arrival_remove_files(a);
    arrival_free(a->volume);
    return 0;
}

static int serve_early(struct arrival *a, struct catalog **ret, struct err *err)
{
    struct catalog *c;
    if (open_rows(a, wait_for_range, &c, err))
        return -1;
    int rc = check_name(a, c, err) ? -1 : start_threads(a, first_main, err);
    if (rc)
        catalog_unref(c);
    else
        *ret = c;
    return rc;
}

static int take(struct volume *v, const char *folder, struct catalog **ret, struct err *err)
{
    if (arrival_new(v, folder, err))
        return -1;
    return arrival_has_versions(folder) ? adopt_whole(v->arrival, ret, err)
                                        : serve_early(v->arrival, ret, err);
}

int version_arrive(struct volume *v, const char *folder, struct catalog **ret, struct err *err)
{
    const char *digest = arrival_digest(v->conf.catalog);
    struct err e = {0};
    bool whole = digest && find_whole(folder, digest, ret) == 0;
    arrival_tidy(folder, whole ? NULL : digest);
    if (whole)
        return 0;
    int rc = take(v, folder, ret, &e);
    if (rc && e.class == ERR_STALE && arrival_is_another(v->arrival)) {
        arrival_remove_files(v->arrival); /* what was left here is of an older object */
        arrival_free(v);
        e = (struct err){0};
        rc = take(v, folder, ret, &e);
    }
    if (!rc) {
        volume_share_bandwidth(v);
        return 0;
    }
    if ((e.class == ERR_CORRUPT || e.class == ERR_USAGE) && v->arrival->part)
        arrival_remove_files(v->arrival); /* of no use here: the next try begins anew */
    if (err)
        *err = e;
    return err_wrap(err, "catalog %s", v->conf.catalog);
}

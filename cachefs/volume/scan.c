/* Listing the sources of a set into a new version of its catalog. */
#define LOG_MODULE "volume"
#include "volume-internal.h"

#include "clock.h"
#include "hash.h"
#include "log.h"

#define LISTINGS_AT_ONCE 16
#define LOOK_EVERY       1024 /* rows between two looks at the clock and the stop flag */
#define SAY_EVERY_NS     (200 * NS_PER_MS)

struct scanning {
    const struct scan *scan;
    struct catalog_builder *builder;
    uint32_t source;
    uint64_t rows;
    uint64_t said_ns;
    uint64_t list_hash;
    bool own_folder; /* the source has a .sampan of its own */
};

static bool told_to_stop(void *arg)
{
    const struct scanning *s = arg;
    const atomic_bool *stop = s->scan->stop, *caller = s->scan->conf->stop;
    return (stop && atomic_load(stop)) || (caller && atomic_load(caller));
}

static int look_up(struct scanning *s, struct err *err)
{
    if (told_to_stop(s))
        return err_set(err, ERR_CANCELLED, "the scan was told to stop");
    uint64_t now = clock_mono_ns();
    if (s->scan->progress && now - s->said_ns >= SAY_EVERY_NS) {
        s->said_ns = now;
        s->scan->progress(s->scan->arg, "scan", s->rows, 0);
    }
    return 0;
}

_Static_assert(LIST_MTIME_UNKNOWN == CATALOG_NO_MTIME, "a listing's times are the catalog's");

static int add_item(void *arg, const struct list_item *item, struct err *err)
{
    struct scanning *s = arg;
    if (s->rows++ % LOOK_EVERY == 0 && look_up(s, err))
        return -1;
    if (store_is_trash(item->key) || store_is_output(item->key))
        return 0; /* what `sampan rmr` keeps for a day; what jobs wrote */
    if (item->unfinished)
        return 0;
    if (item->dangling)
        return catalog_builder_leave_out(s->builder, s->source, item->key, item->key_len,
                                         "a link that leads nowhere or may not be followed", err);
    struct row row = {
        .key = item->key,
        .key_len = item->key_len,
        .size = item->folder ? 0 : item->size,
        .mtime_ns = item->mtime_ns,
        .etag = item->etag ? item->etag : "",
        .source = s->source,
    };
    static const char own[] = ".sampan";
    if (row.key_len >= sizeof own - 1 && memcmp(row.key, own, sizeof own - 1) == 0 &&
        (row.key_len == sizeof own - 1 || row.key[sizeof own - 1] == '/'))
        s->own_folder = true;
    return catalog_builder_add(s->builder, &row, err);
}

static int add_packed(void *arg, const struct row *r, struct err *err)
{
    struct scanning *s = arg;
    if (s->rows++ % LOOK_EVERY == 0 && look_up(s, err))
        return -1;
    struct row row = *r;
    row.source = s->source;
    if (row.pack_offset > INT64_MAX - row.size)
        return err_set(err, ERR_CORRUPT, "\"%s\": a place that no pack has", row.key);
    return catalog_builder_add(s->builder, &row, err);
}

static int leave_out(void *arg, const char *key, size_t len, const char *why, struct err *err)
{
    struct scanning *s = arg;
    return catalog_builder_leave_out(s->builder, s->source, key, len, why, err);
}

/* A packed source has its rows in a catalog of its own: nothing is listed. */
static int take_packed(struct scanning *s, struct store *store, const struct packed_pointer *p,
                       struct err *err)
{
    cleanup_bytes struct bytes file = {0};
    struct catalog *c;
    if (catalog_folder(s->scan->conf, &file, err))
        return -1;
    bytes_addf(&file, "/packed-%u.part", s->source);
    if (fetch_packed_catalog(s->scan->fetch, store, p, file.data, &c, err))
        return -1;
    int result = catalog_rows(c, add_packed, s, err) || catalog_bad_names(c, leave_out, s, err);
    catalog_unref(c);
    unlink(file.data);
    return result ? -1 : 0;
}

static int list_source(struct scanning *s, struct store *store, struct err *err)
{
    _Atomic uint64_t seen = 0;
    struct packed_pointer pointer;
    int packed = fetch_packed_pointer(s->scan->fetch, store, &pointer, err);
    if (packed < 0)
        return -1;
    if (packed)
        return take_packed(s, store, &pointer, err);
    return fetch_list_versions(s->scan->fetch, store, LISTINGS_AT_ONCE, add_item, s, &seen, err);
}

static int list_sources(struct scanning *s, struct err *err)
{
    const struct sources *all = s->scan->sources;
    for (uint32_t i = 0; i < all->set.n; i++) {
        s->source = i;
        if (list_source(s, all->stores[i], err))
            return err_wrap(err, "scan %s", store_uri(all->stores[i]));
    }
    if (s->own_folder)
        log_warn(s->scan->conf->log, "the source has a .sampan of its own: mounts show theirs");
    return 0;
}

static int list_until_stopped(struct scanning *state, struct err *err)
{
    struct fetch_stopper stopper = {
        .fetch = state->scan->fetch, .told = told_to_stop, .arg = state};
    if (!state->scan->conf->stop)
        return list_sources(state, err);
    if (fetch_stopper_begin(&stopper, err))
        return -1;
    int rc = list_sources(state, err);
    fetch_stopper_end(&stopper);
    return rc;
}

static int number_by_list(struct scanning *s, struct err *err)
{
    if (!s->scan->list || !*s->scan->list)
        return 0;
    cleanup_bytes struct bytes text = {0};
    if (list_read(s->scan->sources, s->scan->fetch, s->scan->list, s->scan->root, &text, err))
        return -1;
    s->list_hash = hash64(text.data, text.len, 0);
    return catalog_builder_list(s->builder, text.data ? text.data : "", text.len, s->scan->list,
                                err);
}

static int note_numbering(struct scanning *s, struct err *err)
{
    const char *digest;
    if (catalog_builder_digest(s->builder, &digest, err))
        return -1;
    return numbering_note(s->scan->conf->dir, digest, s->list_hash, err);
}

int scan_builder(const struct scan *s, const char *folder, struct catalog_builder **ret,
                 struct err *err)
{
    const struct sources *all = s->sources;
    struct catalog_source_row *rows = xcalloc(all->set.n ? all->set.n : 1, sizeof *rows);
    for (size_t i = 0; i < all->set.n; i++)
        rows[i] = (struct catalog_source_row){store_uri(all->stores[i]), all->set.sources[i].at};
    int rc = catalog_builder_new(ret, folder, s->previous, rows, (uint32_t)all->set.n, err);
    free(rows);
    return rc;
}

int scan_run(const struct scan *s, char **ret_file, struct catalog_diff_counts *ret_diff,
             struct err *err)
{
    cleanup_bytes struct bytes folder = {0};
    struct scanning state = {.scan = s};
    struct catalog_diff_counts diff = {0};
    if (catalog_folder(s->conf, &folder, err) || scan_builder(s, folder.data, &state.builder, err))
        return -1;
    catalog_builder_stop(state.builder, told_to_stop, &state);
    int rc = list_until_stopped(&state, err);
    if (!rc)
        rc = number_by_list(&state, err);
    if (!rc && s->progress)
        s->progress(s->arg, "sort", state.rows, state.rows);
    /* Before it is there: one that nothing is noted of is taken for numbered by the walk. */
    if (!rc && s->list && *s->list)
        rc = note_numbering(&state, err);
    if (!rc)
        rc = catalog_builder_finish(state.builder, s->out_file, ret_file, &diff, err);
    catalog_builder_free(state.builder);
    if (!rc && ret_diff)
        *ret_diff = diff;
    return rc;
}

/* The sampler's list= and root= number the samples of the version. */
static int list_of_conf(const struct volume_conf *conf, struct order_spec *spec, struct err *err)
{
    spec->list[0] = spec->root[0] = '\0';
    if (!conf->sampler || !*conf->sampler)
        return 0;
    return order_spec_parse(spec, conf->sampler, err);
}

static int scan_with(const struct volume_conf *conf, struct scan *s, struct scan_result *ret,
                     struct err *err)
{
    uint64_t began = clock_mono_ns();
    cleanup_bytes struct bytes folder = {0};
    struct err e = {0};
    if (catalog_folder(conf, &folder, err))
        return -1;
    catalog_tidy(folder.data);
    if (catalog_current(&s->previous, folder.data, &e) && e.class == ERR_CORRUPT) {
        log_warn(conf->log, "the catalog is made anew: %s", e.msg);
    } else if (!s->previous && e.class != ERR_NOT_FOUND) {
        if (err)
            *err = e;
        return err_wrap(err, "catalog in %s (remove that folder to scan anew)", folder.data);
    }
    struct catalog *made = NULL;
    int rc = scan_run(s, &ret->file, &ret->diff, err);
    if (!rc)
        rc = catalog_open(&made, ret->file, err);
    if (s->previous)
        catalog_unref(s->previous);
    if (rc) {
        free(take_ptr(&ret->file));
        return -1;
    }
    ret->info = *catalog_info(made);
    memcpy(ret->digest, ret->info.digest, sizeof ret->digest);
    catalog_unref(made);
    catalog_prune(folder.data, VERSIONS_KEPT, NULL); /* a leftover is no reason to fail */
    ret->seconds = (double)(clock_mono_ns() - began) / 1e9;
    return 0;
}

int volume_scan(const struct volume_conf *conf, const char *out_file, volume_progress_fn *progress,
                void *arg, struct scan_result *ret, struct err *err)
{
    struct order_spec spec;
    struct sources sources = {0};
    struct fetch *fetch = NULL;
    struct scan_result result = {0};
    if (list_of_conf(conf, &spec, err) || sources_open(&sources, conf, err))
        return -1;
    int rc = fetch_new(&fetch, &conf->fetch, err);
    if (!rc) {
        struct scan s = {.conf = conf,
                         .sources = &sources,
                         .fetch = fetch,
                         .list = spec.list,
                         .root = spec.root,
                         .out_file = out_file,
                         .progress = progress,
                         .arg = arg};
        rc = scan_with(conf, &s, &result, err);
        fetch_free(fetch);
    }
    sources_close(&sources);
    if (!rc)
        *ret = result;
    return rc;
}

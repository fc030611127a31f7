/*
 * Warmup: everything, or some paths, made local now.
 *
 *   targets (id order) --capacity check--> round: fetch what is missing, K outstanding
 *        ^                                   |
 *        |                               cache_flush, then look at every sample again
 *        +---- missing or corrupt: once more, then it is a failure
 *
 * A sample counts as done only when, after the flush, the index says that all of it is there (with
 * `verify`: when every chunk of it was read back and its checksum was right). What is local already
 * costs a look at the index, so a warmup that was broken off goes on where it was.
 */
#include "warmup-internal.h"

#include "clock.h"
#include "plan.h"

#define ROUNDS 3

/* --- progress, on the caller's thread -------------------------------------------------------- */

static double publish_progress(struct warm *w, uint64_t done, uint64_t work)
{
    struct volume *v = w->v;
    ACQUIRE(&v->lock);
    v->warm.done = done;
    v->warm.failed = w->result.failed;
    v->warm.work = work;
    if (v->warm.stop)
        w->wish = WARMUP_TAKE_BACK;
    return warm_percent(&v->warm);
}

static void report_failures(struct warm *w, struct warm_failure *f)
{
    while (f) {
        struct warm_failure *next = f->next;
        cleanup_bytes struct bytes path = {0};
        if (catalog_path(w->catalog, f->id, &path, NULL))
            bytes_addf(&path, "id %llu", (unsigned long long)f->id);
        if (w->fail)
            w->fail(w->arg, path.data, f->why);
        w->result.failed++;
        free(f);
        f = next;
    }
}

void warm_tick(struct warm *w, bool now)
{
    uint64_t t = clock_mono_ns();
    if (!now && t - w->ticked_ns < TICK_NS)
        return;
    w->ticked_ns = t;
    struct warm_failure *failures;
    uint64_t work;
    struct warmup_far far = {.total = w->targets.n, .total_bytes = w->targets.bytes};
    {
        ACQUIRE(&w->lock);
        failures = w->failures;
        w->failures = NULL;
        w->tail = &w->failures;
        far.done = w->done;
        far.bytes = w->fetched_bytes + w->parts_fetched;
        work = w->work + w->parts + (w->verify ? w->looked : 0);
    }
    report_failures(w, failures);
    far.percent = publish_progress(w, far.done, work);
    if (!w->tick)
        return;
    enum warmup_wish wish = w->tick(w->arg, &far);
    if (wish > w->wish)
        w->wish = wish;
}

void warm_failed(struct warm *w, uint64_t id, const char *why)
{
    struct warm_failure *f = xcalloc(1, sizeof *f);
    f->id = id;
    snprintf(f->why, sizeof f->why, "%.*s", (int)sizeof f->why - 1, why);
    ACQUIRE(&w->lock);
    *w->tail = f;
    w->tail = &f->next;
}

/* --- looking at it again --------------------------------------------------------------------- */

static bool is_there(struct warm *w, const struct target *t, struct err *err)
{
    uint64_t n = unit_count(t->size);
    if (!cache_has_all(w->v->cache, t->id, n)) {
        err_set(err, ERR_LIMIT,
                "the cache did not keep it (see `sampan status`: a tier is full or set aside)");
        return false;
    }
    for (uint64_t i = 0; w->verify && i < n && !warm_ends(w); i++) {
        if (cache_verify(w->v->cache, t->id + i, err))
            return false;
        w->looked += unit_length(t->size, i);
        warm_tick(w, false);
    }
    cache_pin(w->v->cache, t->id, t->size, true);
    return true;
}

/* It is not there after all: open again, or a failure in the last round. */
static void reopen(struct warm *w, struct target *t, const struct err *err, bool last)
{
    uint32_t state = atomic_load(&t->state);
    atomic_store(&t->state, last ? TARGET_FAILED : TARGET_OPEN);
    if (last)
        warm_failed(w, t->id, err->msg);
    ACQUIRE(&w->lock);
    w->result.already -= state == TARGET_HAD;
    w->result.fetched -= state == TARGET_FETCHED;
    w->fetched_bytes -= state == TARGET_FETCHED ? t->size : 0;
    w->done -= !last;
    w->work -= last ? 0 : warm_work_of(t);
}

/* Others have brought what this warmup found no room for. */
static void note_others(struct warm *w, struct target *t)
{
    if (atomic_load(&t->state) != TARGET_NOT_KEPT)
        return;
    atomic_store(&t->state, TARGET_HAD);
    ACQUIRE(&w->lock);
    w->result.already++;
}

/* Returns how many have to be fetched again. */
static size_t check_round(struct warm *w, bool last)
{
    size_t missing = 0;
    w->looked = 0;
    for (size_t i = 0; i < w->targets.n && !warm_ends(w); i++) {
        struct target *t = target_at(&w->targets, i);
        struct err err = {0};
        uint64_t looked = w->looked + warm_work_of(t);
        bool failed = atomic_load(&t->state) == TARGET_FAILED,
             there = !failed && is_there(w, t, &err);
        w->looked = looked;
        if (i % 64 == 0)
            warm_tick(w, false);
        if (there)
            note_others(w, t);
        if (failed || there)
            continue;
        missing++;
        reopen(w, t, &err, last);
    }
    return missing;
}

/* --- before the first byte ------------------------------------------------------------------- */

/* Bytes that what is missing of the targets will take, and a little for the packs around it. What
 * failed is not fetched again. */
static uint64_t missing_bytes(struct warm *w)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < w->targets.n; i++) {
        const struct target *t = target_at(&w->targets, i);
        for (uint64_t u = 0; u < unit_count(t->size); u++)
            if (atomic_load(&t->state) != TARGET_FAILED && cache_where(w->v->cache, t->id + u) < 0)
                bytes += plan_stored_bytes(unit_length(t->size, u), 1.0);
    }
    return bytes + bytes / 32;
}

/* --- all of it ------------------------------------------------------------------------------- */

int volume_warmup_claim(struct volume *v, struct err *err)
{
    if (!gate_enter(&v->gate))
        return err_set(err, ERR_CANCELLED, "the volume is closing");
    ACQUIRE(&v->lock);
    if (v->warm.state != WARM_RUNNING) {
        v->warm_before = v->warm;
        v->warm = (struct warm_progress){.state = WARM_RUNNING, .started_ns = clock_mono_ns()};
        v->warm.stop = atomic_load(&v->closing);
        return 0;
    }
    gate_leave(&v->gate);
    return err_set(err, ERR_LIMIT, "a warmup is running already (see `sampan status`)");
}

/* Nothing was done: the last one's outcome stands. */
static void restore(struct volume *v)
{
    ACQUIRE(&v->lock);
    bool stop = v->warm.stop;
    v->warm = v->warm_before;
    v->warm.stop = stop;
}

void volume_warmup_disclaim(struct volume *v)
{
    restore(v);
    gate_leave(&v->gate);
}

/* How it ended. Told to stop it is no failure; what is left of it another warmup brings. */
static enum warm_state verdict(const struct warm *w, int rc, const struct err *err)
{
    if (rc && warm_ends(w) && err->class == ERR_CANCELLED)
        return WARM_CANCELLED;
    return !rc && w->result.failed == 0 && w->result.unfit == 0 ? WARM_DONE : WARM_FAILED;
}

static void conclude(struct warm *w, enum warm_state state, const char *error)
{
    struct volume *v = w->v;
    ACQUIRE(&v->lock);
    v->warm.state = state;
    v->warm.failed = w->result.failed;
    v->warm.ended_ns = clock_mono_ns();
    snprintf(v->warm.error, sizeof v->warm.error, "%.*s", (int)sizeof v->warm.error - 1, error);
}

static void totals(struct warm *w)
{
    ACQUIRE(&w->v->lock);
    uint64_t all = w->targets.n + w->result.unfit;
    uint64_t work = w->targets.bytes + w->result.unfit_bytes + all * SAMPLE_WORK;
    w->v->warm.total = all;
    w->v->warm.work_total = w->verify ? 2 * work : work;
}

/*
 * What nobody wants any more goes first, as far as its place is needed; then what was not asked for
 * by a warmup, the longest unused first, and in whole objects last. What reads bring at this moment
 * is there before it is counted as missing.
 */
static void make_room(struct warm *w)
{
    struct cache *cache = w->v->cache;
    cache_drain(cache);
    uint64_t missing = missing_bytes(w);
    if (cache_room(cache) >= missing)
        return;
    left_now(w->v);
    cache_reclaim(cache, missing);
    cache_make_room(cache, missing);
    cache_guests_make_way(cache, missing, targets_have, &w->targets);
}

static int run_rounds(struct warm *w, struct err *err)
{
    for (int round = 0; round < ROUNDS; round++) {
        make_room(w);
        warm_fetch(w);
        if (!warm_ends(w) && cache_flush(w->v->cache, err))
            return -1;
        if (warm_ends(w) || check_round(w, round == ROUNDS - 1) == 0)
            break;
    }
    warm_tick(w, true); /* the last failures, and the final figures */
    return warm_ends(w) ? err_set(err, ERR_CANCELLED, "the warmup was cancelled") : 0;
}

/* Another version is served since: the cache was told of it before the last pins. */
static void drop_old_pins(struct warm *w)
{
    struct catalog *now = volume_catalog(w->v);
    if (!same_version(now, w->catalog))
        left_now(w->v);
    catalog_unref(now);
}

static bool is_packed(const struct warm *w)
{
    struct unit_info unit;
    if (w->targets.n == 0 || catalog_unit(w->catalog, target_at(&w->targets, 0)->id, &unit, NULL))
        return false;
    bool packed = unit.packed;
    unit_info_release(&unit);
    return packed;
}

/* What is to be local: paths, and of them this node's share. */
static int find_targets(struct warm *w, struct err *err)
{
    const struct warmup_conf *c = w->conf;
    struct share_conf division;
    if (division_for(w->v, c, &division, err))
        return -1;
    if (!c->dry_run)
        share_follow(w->v);
    struct share *share = division.partitions ? volume_share(w->v) : NULL;
    if (share && !share_serves(share, &division, w->catalog)) {
        share_unref(share);
        share = NULL;
    }
    if (share && !c->dry_run && share_move(w->v, err)) {
        share_unref(share);
        return -1;
    }
    if (!share && division.partitions &&
        share_new(&share, &division, w->catalog, w->v->conf.dir, err))
        return -1;
    w->is_share = share != NULL;
    int rc =
        targets_collect(&w->targets, w->catalog, c->paths, c->n_paths, share, w->v->conf.dir, err);
    share_unref(share);
    return rc;
}

static void count_local(struct warm *w)
{
    for (size_t i = 0; i < w->targets.n; i++) {
        const struct target *t = target_at(&w->targets, i);
        w->result.already += cache_has_all(w->v->cache, t->id, unit_count(t->size));
    }
}

static int warm_up(struct warm *w, struct err *err)
{
    if (find_targets(w, err) ||
        targets_fit(w->v, w->catalog, &w->targets, w->is_share, &w->result, err))
        return -1;
    totals(w);
    if (w->conf->dry_run) {
        count_local(w);
        return 0;
    }
    w->packed = is_packed(w);
    int rc = run_rounds(w, err);
    drop_old_pins(w);
    return rc;
}

/* Why it is not all there, as the status tells it: written into err's text if the work itself went
 * well. */
static const char *why_not(const struct warm *w, int rc, struct err *err)
{
    if (!rc && !w->result.unfit)
        return "";
    if (!rc)
        unfit_text(&w->result, err->msg, sizeof err->msg);
    return err->msg;
}

static void drop_failures(struct warm *w)
{
    while (w->failures) {
        struct warm_failure *f = w->failures;
        w->failures = f->next;
        free(f);
    }
}

int volume_warmup(struct volume *v, const struct warmup_conf *conf, warmup_tick_fn *tick_fn,
                  warmup_fail_fn *fail, void *arg, struct warmup_result *ret, struct err *err)
{
    struct err scratch = {0};
    if (!err)
        err = &scratch;
    if (!conf->claimed && volume_warmup_claim(v, err))
        return -1;
    uint64_t began = clock_mono_ns();
    bool verify = conf->verify && !conf->dry_run;
    struct warm w = {
        .v = v, .conf = conf, .verify = verify, .tick = tick_fn, .fail = fail, .arg = arg};
    w.tail = &w.failures;
    w.catalog = volume_catalog(v);
    w.ticked_ns = began;
    lock_init(&w.lock, RANK_VOLUME, "warmup");
    cond_init(&w.changed);
    int rc = warm_up(&w, err);
    w.result.samples = w.targets.n + w.result.unfit;
    w.result.bytes = w.targets.bytes + w.result.unfit_bytes;
    w.result.seconds = (double)(clock_mono_ns() - began) / 1e9;
    w.result.verified = verify && !rc && w.result.failed == 0;
    if (conf->dry_run)
        restore(v);
    else
        conclude(&w, verdict(&w, rc, err), why_not(&w, rc, err));
    if (!rc)
        *ret = w.result;
    drop_failures(&w);
    targets_release(&w.targets);
    catalog_unref(w.catalog);
    cond_destroy(&w.changed);
    lock_destroy(&w.lock);
    gate_leave(&v->gate);
    return rc;
}

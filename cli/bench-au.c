/*
 * bench au: how busy accelerators are that are fed from a folder. They are emulated: an accelerator
 * sleeps for as long as the real one computes. By MLPerf Storage's definition
 *
 *   AU = time computed / time that passed,
 *
 * from the moment the first batch is there. Each accelerator is a rank of the sampler, with readers
 * that fetch its samples in order, so many batches ahead as a framework's workers do.
 *
 * A sleep lasts longer than it was asked to, by the more the busier the machine is. So the time of
 * an accelerator is reckoned, not measured: it begins with a batch when that is there and the one
 * before is done, and is done with it one step later. What a thread woke up too late is made good
 * by the sleeps after it; it is neither computing nor waiting.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bench-au-internal.h"
#include "clock.h"
#include "mem.h"
#include "sampan-ioctl.h"
#include "sync.h"

#define AHEAD_EACH 2 /* batches a reader, as torch's prefetch_factor */

static const struct au_model models[] = {
    {"resnet50", "ResNet50 on an H100", 400, 0.224, 114660, 0.90},
    {"resnet50-a100", "ResNet50 on an A100", 400, 0.435, 114660, 0.90},
    {"retinanet", "RetinaNet on a B200", 24, 0.04755, 322957, 0.85},
    {"unet3d", "UNet3D on an H100", 7, 0.323, 146600628, 0.90},
    {"unet3d-b200", "UNet3D on a B200", 7, 0.162, 146600628, 0.90},
    {"cosmoflow", "CosmoFlow on an H100", 1, 0.0035, 2828486, 0.70},
};

const struct au_model *au_model_find(const char *name, struct err *err)
{
    cleanup_bytes struct bytes known = {0};
    for (size_t i = 0; i < COUNT(models); i++) {
        if (strcasecmp(models[i].name, name) == 0)
            return &models[i];
        bytes_addf(&known, "%s%s", i ? ", " : "", models[i].name);
    }
    err_set(err, ERR_USAGE, "--model: unknown model \"%s\" (known: %s)", name, known.data);
    return NULL;
}

/* --- one accelerator ---------------------------------------------------------------------------
 */

struct accelerator;
struct au_reader {
    struct accelerator *a;
    pthread_t thread;
    unsigned char *buffer;
};

struct accelerator {
    const struct au_conf *conf;
    const struct file_list *files;
    const char *dir;
    struct order *order;
    uint64_t samples, batches, ahead;
    pthread_t thread;
    bool running;
    struct au_reader *readers;
    size_t n_readers;

    struct lock lock;
    struct cond changed;
    /* below: guarded by lock */
    bool stop;
    uint64_t next, taken; /* the next sample to be read; batches computed */
    uint32_t *missing;    /* samples that are still to come, of batch i % ahead */
    uint64_t *there_ns;   /* when the last of them came */
    uint64_t bytes, errors;
    struct err first_error;
    /* the accelerator's thread alone */
    uint64_t began_ns, ended_ns, start_ns; /* ended: with the last batch so far */
};

static uint32_t batch_size(const struct accelerator *a, uint64_t batch)
{
    uint64_t left = a->samples - batch * a->conf->model->batch;
    return left < a->conf->model->batch ? (uint32_t)left : a->conf->model->batch;
}

static int read_whole(struct au_reader *r, const char *path, uint64_t *ret_bytes, struct err *err)
{
    size_t size = r->a->conf->buffer;
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "open %s", path);
    for (;;) {
        ssize_t n = read(fd, r->buffer, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, errno, "read %s", path);
        *ret_bytes += (uint64_t)n;
        if ((size_t)n < size)
            return 0;
    }
}

/* Lock held. */
static bool is_over(struct accelerator *a)
{
    if (!a->stop && atomic_load(a->conf->interrupted)) {
        a->stop = true;
        cond_broadcast(&a->changed);
    }
    return a->stop;
}

/* False: no sample is left. */
static bool claim(struct accelerator *a, uint64_t *ret)
{
    ACQUIRE(&a->lock);
    while (!a->stop && a->next < a->samples &&
           a->next / a->conf->model->batch >= a->taken + a->ahead)
        cond_wait(&a->changed, &a->lock);
    *ret = a->next;
    return !is_over(a) && a->next++ < a->samples;
}

static void *reader_main(void *arg)
{
    struct au_reader *r = arg;
    struct accelerator *a = r->a;
    cleanup_bytes struct bytes path = {0};
    for (uint64_t i; claim(a, &i);) {
        struct err why = {0};
        uint64_t bytes = 0;
        bytes_clear(&path);
        bytes_addf(&path, "%s/%s", a->dir, file_list_get(a->files, order_at(a->order, i)));
        int rc = read_whole(r, path.data, &bytes, &why);
        ACQUIRE(&a->lock);
        a->bytes += bytes;
        if (rc && a->errors++ == 0)
            a->first_error = why;
        uint64_t slot = i / a->conf->model->batch % a->ahead;
        if (--a->missing[slot] == 0) {
            a->there_ns[slot] = clock_mono_ns();
            cond_broadcast(&a->changed);
        }
    }
    return NULL;
}

static uint64_t step_ns(const struct accelerator *a)
{
    return (uint64_t)(a->conf->model->step_s * 1e9);
}

static void compute(struct accelerator *a, uint64_t there_ns)
{
    uint64_t begin = there_ns > a->ended_ns ? there_ns : a->ended_ns;
    if (!a->began_ns)
        a->began_ns = begin;
    a->ended_ns = begin + step_ns(a);
    struct timespec t = {.tv_sec = (time_t)(a->ended_ns / NS_PER_S),
                         .tv_nsec = (long)(a->ended_ns % NS_PER_S)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

static void *accelerator_main(void *arg)
{
    struct accelerator *a = arg;
    for (uint64_t batch = 0; batch < a->batches; batch++) {
        uint64_t slot = batch % a->ahead, there_ns;
        {
            ACQUIRE(&a->lock);
            while (!a->stop && a->missing[slot])
                cond_wait(&a->changed, &a->lock);
            if (is_over(a))
                break;
            there_ns = a->there_ns[slot];
            a->taken++;
            if (batch + a->ahead < a->batches)
                a->missing[slot] = batch_size(a, batch + a->ahead);
            cond_broadcast(&a->changed);
        }
        compute(a, there_ns);
    }
    return NULL;
}

/* --- one run -----------------------------------------------------------------------------------
 */

static int accelerator_init(struct accelerator *a, const struct au_conf *conf, const char *dir,
                            const struct file_list *files, const struct order_spec *spec,
                            uint32_t rank, struct err *err)
{
    struct order_spec mine = *spec;
    *a = (struct accelerator){.conf = conf, .files = files, .dir = dir};
    lock_init(&a->lock, RANK_METRICS, "accelerator");
    cond_init(&a->changed);
    mine.rank = rank;
    if (order_new(&a->order, &mine, files->n, err))
        return -1;
    a->samples = order_length(a->order);
    a->batches = (a->samples + conf->model->batch - 1) / conf->model->batch;
    if (conf->steps && a->batches > conf->steps) {
        a->batches = conf->steps;
        a->samples = conf->steps * conf->model->batch;
    }
    a->ahead = AHEAD_EACH * conf->readers;
    a->missing = xcalloc(a->ahead, sizeof *a->missing);
    a->there_ns = xcalloc(a->ahead, sizeof *a->there_ns);
    for (uint64_t b = 0; b < a->ahead && b < a->batches; b++)
        a->missing[b] = batch_size(a, b);
    a->readers = xcalloc(conf->readers, sizeof *a->readers);
    return 0;
}

static void accelerator_release(struct accelerator *a)
{
    for (size_t i = 0; i < a->n_readers; i++)
        free(a->readers[i].buffer);
    free(a->readers);
    free(a->missing);
    free(a->there_ns);
    order_free(a->order);
    cond_destroy(&a->changed);
    lock_destroy(&a->lock);
}

static int accelerator_start(struct accelerator *a, struct err *err)
{
    a->start_ns = clock_mono_ns();
    for (; a->n_readers < a->conf->readers; a->n_readers++) {
        struct au_reader *r = &a->readers[a->n_readers];
        r->a = a;
        r->buffer = malloc(a->conf->buffer);
        int error = r->buffer ? thread_start(&r->thread, "reader", reader_main, r) : ENOMEM;
        if (error) {
            free(r->buffer);
            return err_thread(err, error, "start one more reader of --threads, with its --buffer");
        }
    }
    int error = thread_start(&a->thread, "accelerator", accelerator_main, a);
    a->running = !error;
    return error ? err_thread(err, error, "start a thread") : 0;
}

static void accelerator_join(struct accelerator *a, bool stop)
{
    {
        ACQUIRE(&a->lock);
        a->stop = stop;
        cond_broadcast(&a->changed);
    }
    if (a->running)
        pthread_join(a->thread, NULL);
    for (size_t i = 0; i < a->n_readers; i++)
        pthread_join(a->readers[i].thread, NULL);
}

static void add_up(const struct accelerator *all, uint32_t n, struct au_run *run)
{
    uint64_t first = UINT64_MAX, last = 0;
    uint32_t counted = 0;
    run->au_min = 1;
    for (uint32_t i = 0; i < n; i++) {
        const struct accelerator *a = &all[i];
        run->errors += a->errors;
        run->bytes += a->bytes;
        run->samples += a->samples;
        run->steps += a->batches;
        if (a->errors && run->first_error.class == ERR_NONE)
            run->first_error = a->first_error;
        first = a->start_ns < first ? a->start_ns : first;
        last = a->ended_ns > last ? a->ended_ns : last;
        if (!a->batches)
            continue;
        double au = (double)(a->batches * step_ns(a)) / (double)(a->ended_ns - a->began_ns);
        double wait = (double)(a->began_ns - a->start_ns) / 1e9;
        run->au += au;
        run->au_min = au < run->au_min ? au : run->au_min;
        run->first_s = wait > run->first_s ? wait : run->first_s;
        counted++;
    }
    run->au = counted ? run->au / counted : 0;
    run->au_min = counted ? run->au_min : 0;
    run->seconds = last > first ? (double)(last - first) / 1e9 : 0;
}

static int run_epoch(const struct au_conf *conf, const struct file_list *files,
                     const struct order_spec *spec, struct au_run *run, struct err *err)
{
    uint32_t n = conf->accelerators, ready = 0;
    struct accelerator *all = xcalloc(n, sizeof *all);
    int rc = 0;
    for (; ready < n && !rc; ready++)
        rc = accelerator_init(&all[ready], conf, run->dir, files, spec, ready, err);
    for (uint32_t i = 0; i < n && !rc; i++)
        rc = accelerator_start(&all[i], err);
    for (uint32_t i = 0; i < ready; i++)
        accelerator_join(&all[i], rc != 0);
    if (!rc && atomic_load(conf->interrupted))
        rc = err_set(err, ERR_CANCELLED, "interrupted");
    if (!rc)
        add_up(all, n, run);
    for (uint32_t i = 0; i < ready; i++)
        accelerator_release(&all[i]);
    free(all);
    return rc;
}

/* --- the order, as the mount knows it ----------------------------------------------------------
 */

/* False: the folder is no mount of ours. */
static bool tell(const char *dir, const char *spec)
{
    struct sampan_ioc_sampler told = {0};
    cleanup_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 &&
           (size_t)snprintf(told.spec, sizeof told.spec, "%s", spec) < sizeof told.spec &&
           ioctl(fd, SAMPAN_IOC_SET_SAMPLER, &told) == 0;
}

/* What the mount was told before, "" if nothing. */
static void told_before(const char *dir, struct bytes *ret)
{
    struct sampan_ioc_status status = {0};
    cleanup_json struct json_doc *doc = NULL;
    cleanup_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *spec = "";
    bytes_add_str(ret, "");
    if (fd < 0 || ioctl(fd, SAMPAN_IOC_STATUS, &status) || status.len > sizeof status.json ||
        json_parse(&doc, "status", status.json, status.len, NULL))
        return;
    struct json root = json_root(doc), order = json_get(&root, "order");
    if (order.node && json_str_or(&order, "sampler", "", &spec, NULL) == 0)
        bytes_add_str(ret, spec);
}

static int run_mode(const struct au_conf *conf, const struct file_list *files, const char *dir,
                    bool known, struct au_report *report, struct err *err)
{
    struct order_spec spec = conf->sampler;
    char text[2048];
    for (uint32_t e = 0; e < conf->epochs; e++) {
        struct au_run *run = au_report_add(report);
        *run = (struct au_run){.dir = dir, .known = known, .epoch = conf->sampler.epoch + e};
        spec.epoch = run->epoch;
        order_spec_print(&spec, text, sizeof text);
        /* The set's ranks are this machine's: all of them are told as one node's. */
        if (!tell(dir, known ? text : "") && known)
            return err_set(err, ERR_USAGE, "%s: is no mounted set: nobody can be told its order",
                           dir);
        if (run_epoch(conf, files, &spec, run, err))
            return -1;
    }
    return 0;
}

static int run_dir(const struct au_conf *conf, const char *dir, struct au_report *report,
                   struct err *err)
{
    cleanup_file_list struct file_list files = {0};
    cleanup_bytes struct bytes before = {0};
    if (file_list_walk(&files, dir, err))
        return -1;
    file_list_numbered(&files);
    if (!files.n)
        return err_set(err, ERR_NOT_FOUND, "%s: no sample in it", dir);
    told_before(dir, &before);
    bool ours = tell(dir, "");
    int rc = 0;
    if (conf->blind)
        rc = run_mode(conf, &files, dir, false, report, err);
    if (!rc && conf->known && (ours || !conf->blind))
        rc = run_mode(conf, &files, dir, true, report, err);
    if (ours)
        tell(dir, before.data ? before.data : "");
    return rc;
}

static int take_conf(struct au_conf *c, const struct bench_options *o, struct err *err)
{
    char dflt[64];
    c->model = au_model_find(o->model, err);
    if (!c->model)
        return -1;
    c->accelerators = (uint32_t)o->accelerators;
    c->readers = (uint32_t)(o->threads ? o->threads : AU_READERS);
    c->steps = (uint64_t)o->steps;
    c->epochs = (uint32_t)o->epochs;
    c->buffer = o->buffer;
    c->blind = strcmp(o->mode, "clairvoyant") != 0;
    c->known = strcmp(o->mode, "blind") != 0;
    if (c->blind && c->known && strcmp(o->mode, "both") != 0)
        return err_set(err, ERR_USAGE, "--mode: want blind, clairvoyant or both");
    snprintf(dflt, sizeof dflt, "torch-distributed,seed=%lld", (long long)o->seed);
    if (bench_sampler(&c->sampler, o->sampler ? o->sampler : dflt, err))
        return -1;
    if (c->sampler.has_rank || (c->sampler.has_ranks && c->sampler.ranks != c->accelerators))
        return err_set(err, ERR_USAGE,
                       "--sampler: each accelerator is a rank: no rank=, and ranks=%u (or none)",
                       c->accelerators);
    c->sampler.ranks = c->sampler.ranks_per_node = c->accelerators;
    c->sampler.has_ranks = c->sampler.has_ranks_per_node = c->sampler.has_rank = true;
    if (c->sampler.batch_size <= 1)
        c->sampler.batch_size = c->model->batch;
    return 0;
}

/* One that is not there is said before others are measured. */
static int look_at(const char *compare, struct err *err)
{
    cleanup_free char *all = compare ? xstrdup(compare) : NULL;
    char *rest = all, *one;
    struct stat st;
    while ((one = strsep(&rest, ","))) {
        if (*one && stat(one, &st))
            return err_sys(err, errno, "--compare: %s", one);
        if (*one && !S_ISDIR(st.st_mode))
            return err_sys(err, ENOTDIR, "--compare: %s", one);
    }
    return 0;
}

int bench_au(const char *dir, const struct bench_options *o, struct err *err)
{
    struct au_conf conf = {.interrupted = catch_interrupts()};
    struct au_report report = {0};
    if (take_conf(&conf, o, err) || au_report_may_write(o, err) || look_at(o->compare, err))
        return -1;
    report.conf = &conf;
    cleanup_free char *others = o->compare ? xstrdup(o->compare) : NULL;
    char *rest = others, *one;
    int rc = run_dir(&conf, dir, &report, err);
    while (!rc && (one = strsep(&rest, ",")))
        rc = *one ? run_dir(&conf, one, &report, err) : 0;
    rc = rc ? rc : au_report_print(&report, o, err);
    for (size_t i = 0; i < report.n && !rc; i++)
        if (report.runs[i].errors) {
            *err = report.runs[i].first_error;
            err->class = ERR_FAILED;
            char failed[64];
            conf_format_count(report.runs[i].errors, "sample", failed);
            rc = err_wrap(err, "%s of %s failed; the first", failed, report.runs[i].dir);
        }
    free(report.runs);
    return rc;
}

/* bench epoch: opens, reads and closes every file of a folder, as a training epoch does. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bench-internal.h"
#include "clock.h"
#include "mem.h"
#include "sync.h"

struct epoch {
    const struct bench_options *o;
    const char *dir;
    const struct file_list *files;
    uint64_t *latency_ns; /* one a sample; UINT64_MAX: failed */
    uint64_t began_ns;
    struct progress progress; /* the first thread's */
    _Atomic size_t next;
    _Atomic uint64_t bytes, errors;

    struct lock lock; /* guards first_error */
    struct err first_error;
};

struct reader {
    struct epoch *e;
    pthread_t thread;
    bool first;
    unsigned char *buffer, *other; /* o->buffer bytes each; other: of --compare */
};

static size_t thread_count(const struct bench_options *o)
{
    return o->threads ? (size_t)o->threads : 1;
}

static void note_error(struct epoch *e, const struct err *why)
{
    ACQUIRE(&e->lock);
    if (atomic_fetch_add(&e->errors, 1) == 0)
        e->first_error = *why;
}

static ssize_t read_some(int fd, unsigned char *buffer, size_t size)
{
    ssize_t n;
    do
        n = read(fd, buffer, size);
    while (n < 0 && errno == EINTR);
    return n;
}

/* Open, read to the end, close; the time of just that. A short read is the end: files do not grow.
 */
static int read_file(struct reader *r, const char *path, uint64_t *ret_bytes, uint64_t *ret_ns,
                     struct err *err)
{
    uint64_t began = clock_mono_ns(), bytes = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "open %s", path);
    ssize_t n;
    do {
        n = read_some(fd, r->buffer, r->e->o->buffer);
        bytes += n > 0 ? (uint64_t)n : 0;
    } while (n == (ssize_t)r->e->o->buffer);
    int why = errno;
    struct stat st;
    int looked = n >= 0 && r->e->o->verify ? fstat(fd, &st) : -1;
    close(fd);
    if (n < 0)
        return err_sys(err, why, "read %s at %" PRIu64, path, bytes);
    if (looked == 0 && (uint64_t)st.st_size != bytes)
        return err_set(err, ERR_CORRUPT, "read %s: %" PRIu64 " bytes of %lld", path, bytes,
                       (long long)st.st_size);
    *ret_bytes = bytes;
    *ret_ns = clock_mono_ns() - began;
    return 0;
}

/* Reads both again, side by side, outside the measured time. */
static int compare_files(struct reader *r, const char *path, const char *with, struct err *err)
{
    cleanup_close int a = open(path, O_RDONLY | O_CLOEXEC);
    if (a < 0)
        return err_sys(err, errno, "open %s", path);
    cleanup_close int b = open(with, O_RDONLY | O_CLOEXEC);
    if (b < 0)
        return err_sys(err, errno, "open %s", with);
    uint64_t at = 0;
    for (;;) {
        ssize_t n = read_some(a, r->buffer, r->e->o->buffer);
        ssize_t m = read_some(b, r->other, r->e->o->buffer);
        if (n < 0 || m < 0)
            return err_sys(err, errno, "compare %s", path);
        if (n != m || memcmp(r->buffer, r->other, (size_t)n) != 0)
            return err_set(err, ERR_CORRUPT, "%s differs from %s within %" PRIu64 "+%zd", path,
                           with, at, n > m ? n : m);
        if (n == 0)
            return 0;
        at += (uint64_t)n;
    }
}

static void wait_for_turn(const struct epoch *e, size_t i)
{
    uint64_t at = e->began_ns + (uint64_t)((double)i * 1e9 / (double)e->o->rate);
    struct timespec t = {.tv_sec = (time_t)(at / NS_PER_S), .tv_nsec = (long)(at % NS_PER_S)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

static void *reader_main(void *arg)
{
    struct reader *r = arg;
    struct epoch *e = r->e;
    cleanup_bytes struct bytes path = {0}, with = {0};
    for (size_t i; (i = atomic_fetch_add(&e->next, 1)) < e->files->n;) {
        if (e->o->rate)
            wait_for_turn(e, i);
        const char *name = file_list_get(e->files, i);
        bytes_clear(&path);
        bytes_addf(&path, "%s/%s", e->dir, name);
        uint64_t bytes = 0;
        struct err err = {0};
        int failed = read_file(r, path.data, &bytes, &e->latency_ns[i], &err);
        if (!failed && e->o->compare) {
            bytes_clear(&with);
            bytes_addf(&with, "%s/%s", e->o->compare, name);
            failed = compare_files(r, path.data, with.data, &err);
        }
        if (failed) {
            e->latency_ns[i] = UINT64_MAX;
            note_error(e, &err);
        }
        uint64_t all = atomic_fetch_add(&e->bytes, bytes) + bytes;
        if (r->first)
            progress_show(&e->progress, "samples",
                          &(struct how_far){.done = i, .total = e->files->n, .bytes = all});
    }
    return NULL;
}

static int run_readers(struct epoch *e, struct err *err)
{
    size_t n = thread_count(e->o), started = 0;
    struct reader *readers = xcalloc(n, sizeof *readers);
    int error = 0;
    e->began_ns = clock_mono_ns();
    for (; started < n && !error; started++) {
        struct reader *r = &readers[started];
        *r = (struct reader){.e = e, .first = started == 0, .buffer = malloc(e->o->buffer)};
        r->other = e->o->compare ? malloc(e->o->buffer) : NULL;
        bool has_room = r->buffer && (r->other || !e->o->compare);
        error = has_room ? thread_start(&r->thread, "reader", reader_main, r) : ENOMEM;
        if (error) {
            free(r->buffer);
            free(r->other);
            atomic_store(&e->next, e->files->n);
            break;
        }
    }
    for (size_t i = 0; i < started; i++) {
        pthread_join(readers[i].thread, NULL);
        free(readers[i].buffer);
        free(readers[i].other);
    }
    free(readers);
    return error ? err_thread(err, error, "start one more reader of --threads, with its --buffer")
                 : 0;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

void write_seconds(struct json_writer *w, const char *key, double seconds)
{
    char text[32];
    snprintf(text, sizeof text, "%.6f", seconds);
    jw_raw(w, key, text);
}

uint64_t sorted_quantile(const uint64_t *values, size_t n, double q)
{
    if (!n)
        return 0;
    size_t i = (size_t)(q * (double)n);
    return values[i < n ? i : n - 1];
}

static int report(struct epoch *e, double seconds, struct err *err)
{
    size_t n = e->files->n, good = n - (size_t)atomic_load(&e->errors);
    qsort(e->latency_ns, n, sizeof *e->latency_ns, by_value); /* failed ones come last */
    double p50 = (double)sorted_quantile(e->latency_ns, good, 0.50) / 1e3;
    double p99 = (double)sorted_quantile(e->latency_ns, good, 0.99) / 1e3;
    double max = good ? (double)e->latency_ns[good - 1] / 1e3 : 0;
    double rate = seconds > 0 ? (double)n / seconds : 0;
    double bytes_rate = seconds > 0 ? (double)atomic_load(&e->bytes) / seconds : 0;
    cleanup_bytes struct bytes out = {0};
    if (e->o->json) {
        struct json_writer w;
        jw_init(&w, &out);
        jw_object(&w, NULL);
        jw_uint(&w, "samples", n);
        write_seconds(&w, "seconds", seconds);
        jw_num(&w, "samples_per_s", rate);
        jw_num(&w, "bytes_per_s", bytes_rate);
        jw_num(&w, "p50_us", p50);
        jw_num(&w, "p99_us", p99);
        jw_num(&w, "max_us", max);
        jw_uint(&w, "errors", atomic_load(&e->errors));
        jw_uint(&w, "bytes", atomic_load(&e->bytes));
        jw_uint(&w, "threads", thread_count(e->o));
        jw_end(&w);
        bytes_add_char(&out, '\n');
    } else {
        char size[32], samples[64], errors[64];
        conf_format_size((uint64_t)bytes_rate, size);
        conf_format_count(n, "sample", samples);
        conf_format_count(atomic_load(&e->errors), "error", errors);
        bytes_addf(&out,
                   "%s in %.2f s: %.0f samples/s, %s/s, p50 %.1f us, p99 %.1f us, max %.1f us, "
                   "%s\n",
                   samples, seconds, rate, size, p50, p99, max, errors);
    }
    return print_out(&out, err);
}

static int one_epoch(struct epoch *e, struct err *err)
{
    atomic_store(&e->next, 0);
    atomic_store(&e->bytes, 0);
    atomic_store(&e->errors, 0);
    progress_init(&e->progress, e->o->quiet);
    int result = run_readers(e, err);
    double seconds = (double)(clock_mono_ns() - e->began_ns) / 1e9;
    progress_end(&e->progress);
    if (!result)
        result = report(e, seconds, err);
    if (!result && atomic_load(&e->errors)) {
        *err = e->first_error;
        err->class = ERR_FAILED;
        char samples[64];
        conf_format_count(e->files->n, "sample", samples);
        result =
            err_wrap(err, "%" PRIu64 " of %s failed; the first", atomic_load(&e->errors), samples);
    }
    return result;
}

static int choose_files(struct file_list *files, const char *dir, const struct bench_options *o,
                        struct err *err)
{
    bool walk = strcmp(o->order, "walk") == 0, shuffle = strcmp(o->order, "shuffle") == 0;
    if (o->sampler && !walk)
        return err_set(err, ERR_USAGE, "--sampler: is an order of its own: not with --order");
    if (!walk && !shuffle)
        return file_list_read(files, o->order, err);
    if (file_list_walk(files, dir, err))
        return -1;
    if (o->sampler) {
        file_list_numbered(files);
        return file_list_sample(files, o->sampler, err);
    }
    if (shuffle)
        file_list_shuffle(files, (uint64_t)o->seed);
    return 0;
}

int bench_epoch(const char *dir, const struct bench_options *o, struct err *err)
{
    cleanup_file_list struct file_list files = {0};
    if (choose_files(&files, dir, o, err))
        return -1;
    if (!files.n)
        return err_set(err, ERR_NOT_FOUND, "%s: nothing to read", dir);
    struct epoch e = {.o = o, .dir = dir, .files = &files};
    lock_init(&e.lock, RANK_METRICS, "first error");
    e.latency_ns = xcalloc(files.n, sizeof *e.latency_ns);
    int result = 0;
    for (int64_t i = 0; i < o->epochs && !result; i++) {
        if (i && strcmp(o->order, "shuffle") == 0)
            file_list_shuffle(&files, (uint64_t)(o->seed + i));
        result = one_epoch(&e, err);
    }
    free(e.latency_ns);
    lock_destroy(&e.lock);
    return result;
}

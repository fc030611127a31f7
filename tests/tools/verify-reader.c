/*
 * verify-reader: threads that read files of a mounted folder in seeded random order and compare
 * every byte with a reference folder, while somebody else kills what serves the mount.
 *
 *   verify-reader [OPTIONS] REFERENCE MOUNTED
 *     --threads N    readers (4)                    --seconds S   how long (10)
 *     --seed N       of the order (1)               --passes N    each reader ends after N passes
 *     --how WAY      read, pread, mmap or mix (mix: each file another way, by the seed)
 *     --drop         takes each file's pages out of the page cache after reading it
 *     --hash         keeps a 64-bit hash of each reference file and reads no reference later
 *     --pause-ms N   a call that takes longer is a pause (10)
 *     --hung-s N     a call that takes longer is given up: the program ends with "hung" (60)
 *
 * The list of files is the reference's: what the mount does not show is an error. Every error
 * counts, EINTR too; a call that EINTR ended is made again, so that the bytes are compared all the
 * same. SIGINT and SIGTERM end the run early. Prints one line of JSON; what went wrong first goes
 * to stderr.
 *
 * Exit 0: all was right. 1: an error, a wrong byte or a hung call. 2: usage.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PIECE        (128u << 10)
#define ERRNOS       160 /* the last one counts what has no errno: a mapping's SIGBUS */
#define SIGBUS_COUNT (ERRNOS - 1)
#define SAID_AT_MOST 20
#define BUCKETS      (40 * 16)

enum way { WAY_READ, WAY_PREAD, WAY_MMAP, WAY_MIX };

struct file {
    char *path; /* below both folders */
    uint64_t size, hash;
    const unsigned char *bytes; /* NULL with --hash */
};

struct options {
    unsigned threads;
    double seconds, pause_ms, hung_s;
    uint64_t seed, passes;
    enum way how;
    bool drop, hash;
    const char *reference, *mounted;
};

struct reader {
    pthread_t thread;
    uint64_t random;
    uint64_t reads, files, bytes, mismatches, errors[ERRNOS];
    uint64_t took[BUCKETS]; /* calls by duration */
    double *pauses, longest_ms;
    size_t n_pauses, room;
    _Atomic uint64_t call_began_ns; /* 0: in no call */
    atomic_bool ended;
};

static struct options opt = {
    .threads = 4, .seconds = 10, .pause_ms = 10, .hung_s = 300, .seed = 1, .how = WAY_MIX};
static struct file *files;
static size_t n_files;
static int mounted_fd;
static atomic_bool stop;
static atomic_int said;
static _Thread_local sigjmp_buf *bus_guard;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t next_random(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x;
}

static uint64_t hash_bytes(uint64_t h, const unsigned char *p, size_t len)
{
    for (; len >= 8; p += 8, len -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    for (; len; p++, len--)
        h = (h ^ *p) * 0x100000001b3u;
    return h;
}

__attribute__((format(printf, 1, 2))) static void say(const char *fmt, ...)
{
    if (atomic_fetch_add(&said, 1) >= SAID_AT_MOST)
        return;
    char text[1200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fprintf(stderr, "verify-reader: %s\n", text);
}

/* --- the reference -----------------------------------------------------------------------------
 */

static int add_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)ftw;
    if (type != FTW_F || !S_ISREG(st->st_mode))
        return 0;
    if (n_files % 1024 == 0)
        files = realloc(files, (n_files + 1024) * sizeof *files);
    if (!files)
        return -1;
    files[n_files++] = (struct file){.path = strdup(path + strlen(opt.reference) + 1),
                                     .size = (uint64_t)st->st_size};
    return 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct file *)a)->path, ((const struct file *)b)->path);
}

static int load_file(int dir, struct file *f)
{
    int fd = openat(dir, f->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    void *at = f->size ? mmap(NULL, f->size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    close(fd);
    if (at == MAP_FAILED)
        return -1;
    f->bytes = at;
    if (opt.hash) {
        f->hash = hash_bytes(f->size, at, f->size);
        if (at)
            munmap(at, f->size);
        f->bytes = NULL;
    }
    return 0;
}

static int load_reference(void)
{
    int dir = open(opt.reference, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || nftw(opt.reference, add_file, 32, FTW_PHYS) || !n_files) {
        fprintf(stderr, "verify-reader: %s: %s\n", opt.reference,
                errno ? strerror(errno) : "no files");
        return -1;
    }
    qsort(files, n_files, sizeof *files, by_path); /* the order of a folder is the disk's whim */
    for (size_t i = 0; i < n_files; i++)
        if (load_file(dir, &files[i])) {
            fprintf(stderr, "verify-reader: %s: %s\n", files[i].path, strerror(errno));
            return -1;
        }
    close(dir);
    return 0;
}

/* --- calls, timed --------------------------------------------------------------------------------
 */

/* 16 buckets for each power of two of microseconds. */
static unsigned bucket_of(uint64_t us)
{
    if (us < 16)
        return (unsigned)us;
    unsigned top = 63 - (unsigned)__builtin_clzll(us);
    unsigned b = (top - 3) * 16 + (unsigned)((us >> (top - 4)) & 15);
    return b < BUCKETS ? b : BUCKETS - 1;
}

static double bucket_ms(unsigned b)
{
    if (b < 16)
        return b / 1e3;
    return (double)((16 + (uint64_t)(b % 16)) << (b / 16 - 1)) / 1e3;
}

static void call_begins(struct reader *r)
{
    atomic_store(&r->call_began_ns, now_ns());
}

static void call_ends(struct reader *r)
{
    uint64_t took = now_ns() - atomic_load(&r->call_began_ns);
    double ms = (double)took / 1e6;
    atomic_store(&r->call_began_ns, 0);
    r->took[bucket_of(took / 1000)]++;
    if (ms > r->longest_ms)
        r->longest_ms = ms;
    if (ms <= opt.pause_ms)
        return;
    if (r->n_pauses == r->room) {
        size_t room = r->room ? r->room * 2 : 256;
        double *more = realloc(r->pauses, room * sizeof *more);
        if (!more)
            return;
        r->pauses = more;
        r->room = room;
    }
    r->pauses[r->n_pauses++] = ms;
}

static void count_error(struct reader *r, const struct file *f, const char *what, uint64_t at)
{
    int e = errno;
    r->errors[e > 0 && e < SIGBUS_COUNT ? e : 0]++;
    say("%s: %s at %llu: %s", f->path, what, (unsigned long long)at, strerrorname_np(e));
}

static int open_timed(struct reader *r, const struct file *f)
{
    for (;;) {
        call_begins(r);
        int fd = openat(mounted_fd, f->path, O_RDONLY | O_CLOEXEC);
        int e = errno;
        call_ends(r);
        errno = e;
        if (fd >= 0)
            return fd;
        count_error(r, f, "open", 0);
        if (e != EINTR)
            return -1;
    }
}

/* Like pread(), or read() with an offset below 0. */
static ssize_t read_timed(struct reader *r, const struct file *f, int fd, void *to, size_t len,
                          off_t at, uint64_t pos)
{
    for (;;) {
        call_begins(r);
        ssize_t n = at < 0 ? read(fd, to, len) : pread(fd, to, len, at);
        int e = errno;
        call_ends(r);
        r->reads++;
        errno = e;
        if (n >= 0)
            return n;
        count_error(r, f, "read", pos);
        if (e != EINTR)
            return -1;
    }
}

/* --- comparing -----------------------------------------------------------------------------------
 */

static void wrong(struct reader *r, const struct file *f, uint64_t at, const char *what)
{
    r->mismatches++;
    say("%s: %s at %llu", f->path, what, (unsigned long long)at);
}

/* Compares a piece, or adds it to the hash where the bytes come in order; false: it differs. */
static bool compare(struct reader *r, const struct file *f, uint64_t at, const void *data,
                    size_t len, uint64_t *hash)
{
    r->bytes += len;
    if (at > f->size || len > f->size - at) {
        wrong(r, f, at, "bytes past the end");
        return false;
    }
    if (!f->bytes) {
        *hash = hash_bytes(*hash, data, len);
        return true;
    }
    if (memcmp(f->bytes + at, data, len) == 0)
        return true;
    wrong(r, f, at, "wrong bytes");
    return false;
}

static void read_in_order(struct reader *r, const struct file *f, int fd, unsigned char *into)
{
    uint64_t at = 0, hash = f->size;
    ssize_t n;
    while ((n = read_timed(r, f, fd, into, PIECE, -1, at)) > 0) {
        /* The hash takes whole words: a short read in the middle would split one. */
        while ((size_t)n < PIECE && at + (uint64_t)n < f->size) {
            ssize_t more = read_timed(r, f, fd, into + n, PIECE - (size_t)n, -1, at);
            if (more <= 0)
                break;
            n += more;
        }
        if (!compare(r, f, at, into, (size_t)n, &hash))
            return;
        at += (uint64_t)n;
    }
    if (n < 0)
        return;
    if (at != f->size)
        wrong(r, f, at, "the file ends");
    else if (!f->bytes && hash != f->hash)
        wrong(r, f, 0, "another hash");
}

/* Pieces in random order, each whole; with hashes from the beginning on. */
static void read_at_offsets(struct reader *r, const struct file *f, int fd, unsigned char *into)
{
    uint64_t pieces = (f->size + PIECE - 1) / PIECE, hash = f->size;
    uint64_t first = pieces && f->bytes ? next_random(&r->random) % pieces : 0;
    for (uint64_t i = 0; i < pieces; i++) {
        uint64_t at = (first + i) % pieces * PIECE;
        size_t want = f->size - at < PIECE ? (size_t)(f->size - at) : PIECE, have = 0;
        while (have < want) {
            ssize_t n = read_timed(r, f, fd, into + have, want - have, (off_t)(at + have), at);
            if (n < 0)
                return;
            if (n == 0) {
                wrong(r, f, at + have, "the file ends");
                return;
            }
            have += (size_t)n;
        }
        if (!compare(r, f, at, into, want, &hash))
            return;
    }
    if (!f->bytes && hash != f->hash)
        wrong(r, f, 0, "another hash");
}

static void on_bus(int sig)
{
    if (bus_guard)
        siglongjmp(*bus_guard, 1);
    signal(sig, SIG_DFL);
    raise(sig);
}

static void read_mapped(struct reader *r, const struct file *f, int fd)
{
    if (f->size == 0)
        return;
    call_begins(r);
    unsigned char *at = mmap(NULL, f->size, PROT_READ, MAP_SHARED, fd, 0);
    call_ends(r);
    if (at == MAP_FAILED) {
        count_error(r, f, "mmap", 0);
        return;
    }
    sigjmp_buf here;
    uint64_t hash = f->size;
    if (sigsetjmp(here, 1)) {
        call_ends(r);
        r->errors[SIGBUS_COUNT]++;
        say("%s: SIGBUS in the mapping", f->path);
    } else {
        bus_guard = &here;
        for (uint64_t off = 0; off < f->size; off += PIECE) {
            size_t len = f->size - off < PIECE ? (size_t)(f->size - off) : PIECE;
            call_begins(r);
            bool same = compare(r, f, off, at + off, len, &hash);
            call_ends(r);
            r->reads++;
            if (!same)
                break;
        }
        if (!f->bytes && hash != f->hash)
            wrong(r, f, 0, "another hash");
    }
    bus_guard = NULL;
    munmap(at, f->size);
}

static void read_file(struct reader *r, const struct file *f, unsigned char *into)
{
    enum way how = opt.how == WAY_MIX ? (enum way)(next_random(&r->random) % 3) : opt.how;
    int fd = open_timed(r, f);
    if (fd < 0)
        return;
    struct stat st;
    call_begins(r);
    int rc = fstat(fd, &st), e = errno;
    call_ends(r);
    errno = e;
    if (rc)
        count_error(r, f, "fstat", 0);
    else if ((uint64_t)st.st_size != f->size)
        wrong(r, f, (uint64_t)st.st_size, "another size");
    else if (how == WAY_MMAP)
        read_mapped(r, f, fd);
    else if (how == WAY_PREAD)
        read_at_offsets(r, f, fd, into);
    else
        read_in_order(r, f, fd, into);
    r->files++;
    if (opt.drop)
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

/* --- the run -------------------------------------------------------------------------------------
 */

static void shuffle(uint32_t *order, uint64_t *random)
{
    for (size_t i = n_files; i > 1; i--) {
        size_t k = next_random(random) % i;
        uint32_t t = order[i - 1];
        order[i - 1] = order[k];
        order[k] = t;
    }
}

static void *run(void *arg)
{
    struct reader *r = arg;
    unsigned char *into = malloc(PIECE);
    uint32_t *order = malloc(n_files * sizeof *order);
    for (size_t i = 0; order && i < n_files; i++)
        order[i] = (uint32_t)i;
    for (uint64_t pass = 0; into && order && !stop; pass++) {
        if (opt.passes && pass == opt.passes)
            break;
        shuffle(order, &r->random);
        for (size_t i = 0; i < n_files && !stop; i++)
            read_file(r, &files[order[i]], into);
    }
    free(order);
    free(into);
    atomic_store(&r->ended, true);
    return NULL;
}

static void on_end(int sig)
{
    (void)sig;
    atomic_store(&stop, true);
}

static void block_ends(int how)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(how, &ends, NULL);
}

/* Waits for the end; returns how many readers hang in a call. */
static unsigned wait_for_readers(struct reader *r)
{
    uint64_t end = now_ns() + (uint64_t)(opt.seconds * 1e9);
    for (;;) {
        unsigned running = 0, hung = 0;
        uint64_t now = now_ns();
        for (unsigned i = 0; i < opt.threads; i++) {
            uint64_t began = atomic_load(&r[i].call_began_ns);
            running += !atomic_load(&r[i].ended);
            hung += began && now > began && (double)(now - began) / 1e9 > opt.hung_s;
        }
        if (!running || hung)
            return hung;
        if (now > end)
            atomic_store(&stop, true);
        usleep(5000);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double call_quantile(const struct reader *sum, double q)
{
    uint64_t n = 0, seen = 0;
    for (unsigned b = 0; b < BUCKETS; b++)
        n += sum->took[b];
    for (unsigned b = 0; b < BUCKETS; b++) {
        seen += sum->took[b];
        if (n && (double)seen >= q * (double)n)
            return bucket_ms(b);
    }
    return 0;
}

static void add_up(struct reader *sum, const struct reader *r)
{
    sum->reads += r->reads;
    sum->files += r->files;
    sum->bytes += r->bytes;
    sum->mismatches += r->mismatches;
    for (unsigned e = 0; e < ERRNOS; e++)
        sum->errors[e] += r->errors[e];
    for (unsigned b = 0; b < BUCKETS; b++)
        sum->took[b] += r->took[b];
    if (r->longest_ms > sum->longest_ms)
        sum->longest_ms = r->longest_ms;
    double *all = realloc(sum->pauses, (sum->n_pauses + r->n_pauses + 1) * sizeof *all);
    if (!all)
        return;
    sum->pauses = all;
    if (r->n_pauses)
        memcpy(all + sum->n_pauses, r->pauses, r->n_pauses * sizeof *all);
    sum->n_pauses += r->n_pauses;
}

static uint64_t print_errors(const struct reader *sum)
{
    uint64_t total = 0;
    printf("\"errors\":{");
    for (int e = 0; e < ERRNOS; e++) {
        if (!sum->errors[e])
            continue;
        const char *name = e == SIGBUS_COUNT ? "SIGBUS" : strerrorname_np(e);
        printf("%s\"%s\":%llu", total ? "," : "", name ? name : "?",
               (unsigned long long)sum->errors[e]);
        total += sum->errors[e];
    }
    printf("},\"errors_total\":%llu,", (unsigned long long)total);
    return total;
}

static int report(const struct reader *r, unsigned hung, double took)
{
    struct reader sum = {0};
    for (unsigned i = 0; i < opt.threads; i++)
        add_up(&sum, &r[i]);
    size_t n = sum.n_pauses;
    if (n)
        qsort(sum.pauses, n, sizeof *sum.pauses, by_value);
    printf("{\"seed\":%llu,\"threads\":%u,\"seconds\":%.3f,\"files\":%llu,\"reads\":%llu,"
           "\"bytes\":%llu,",
           (unsigned long long)opt.seed, opt.threads, took, (unsigned long long)sum.files,
           (unsigned long long)sum.reads, (unsigned long long)sum.bytes);
    uint64_t errors = print_errors(&sum);
    printf("\"mismatches\":%llu,\"hung\":%u,", (unsigned long long)sum.mismatches, hung);
    printf("\"call_ms\":{\"p50\":%.3f,\"p99\":%.3f,\"longest\":%.3f},", call_quantile(&sum, 0.5),
           call_quantile(&sum, 0.99), sum.longest_ms);
    printf("\"pause_ms\":{\"over\":%g,\"count\":%zu,\"p50\":%.1f,\"p99\":%.1f,\"longest\":%.1f}}\n",
           opt.pause_ms, n, n ? sum.pauses[n / 2] : 0.0, n ? sum.pauses[n * 99 / 100] : 0.0,
           n ? sum.pauses[n - 1] : 0.0);
    fflush(stdout);
    free(sum.pauses);
    return errors || sum.mismatches || hung ? 1 : 0;
}

/* --- options -------------------------------------------------------------------------------------
 */

static int parse_way(const char *word, enum way *ret)
{
    static const char *const names[] = {"read", "pread", "mmap", "mix"};
    for (unsigned i = 0; i < 4; i++)
        if (strcmp(word, names[i]) == 0) {
            *ret = (enum way)i;
            return 0;
        }
    return -1;
}

static int parse_options(int argc, char **argv)
{
    static const struct option known[] = {{"threads", 1, NULL, 't'}, {"seconds", 1, NULL, 's'},
                                          {"seed", 1, NULL, 'r'},    {"passes", 1, NULL, 'p'},
                                          {"how", 1, NULL, 'h'},     {"drop", 0, NULL, 'd'},
                                          {"hash", 0, NULL, 'H'},    {"pause-ms", 1, NULL, 'm'},
                                          {"hung-s", 1, NULL, 'g'},  {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) >= 0;) {
        if (c == 't')
            opt.threads = (unsigned)strtoul(optarg, NULL, 10);
        else if (c == 's')
            opt.seconds = strtod(optarg, NULL);
        else if (c == 'r')
            opt.seed = strtoull(optarg, NULL, 10);
        else if (c == 'p')
            opt.passes = strtoull(optarg, NULL, 10);
        else if (c == 'd')
            opt.drop = true;
        else if (c == 'H')
            opt.hash = true;
        else if (c == 'm')
            opt.pause_ms = strtod(optarg, NULL);
        else if (c == 'g')
            opt.hung_s = strtod(optarg, NULL);
        else if (c != 'h' || parse_way(optarg, &opt.how))
            return -1;
    }
    if (argc - optind != 2 || opt.threads == 0 || opt.threads > 1024)
        return -1;
    opt.reference = argv[optind];
    opt.mounted = argv[optind + 1];
    return 0;
}

int main(int argc, char **argv)
{
    if (parse_options(argc, argv)) {
        fprintf(stderr, "usage: verify-reader [--threads N] [--seconds S] [--seed N] [--passes N] "
                        "[--how read|pread|mmap|mix] [--drop] [--hash] [--pause-ms N] [--hung-s N] "
                        "REFERENCE MOUNTED\n");
        return 2;
    }
    if (load_reference())
        return 2;
    mounted_fd = open(opt.mounted, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (mounted_fd < 0) {
        perror(opt.mounted);
        return 2;
    }
    signal(SIGINT, on_end);
    signal(SIGTERM, on_end);
    signal(SIGBUS, on_bus);
    struct reader *r = calloc(opt.threads, sizeof *r);
    uint64_t began = now_ns();
    block_ends(SIG_BLOCK); /* a signal to a reader would make an EINTR of our own */
    for (unsigned i = 0; r && i < opt.threads; i++) {
        r[i].random = (opt.seed + 1) * 0x9e3779b97f4a7c15u + i * 0x2545f4914f6cdd1du + 1;
        if (pthread_create(&r[i].thread, NULL, run, &r[i]))
            return 2;
    }
    block_ends(SIG_UNBLOCK);
    unsigned hung = wait_for_readers(r);
    int code = report(r, hung, (double)(now_ns() - began) / 1e9);
    if (hung)
        _exit(code); /* a reader in a call that never ends cannot be joined */
    for (unsigned i = 0; i < opt.threads; i++) {
        pthread_join(r[i].thread, NULL);
        free(r[i].pauses);
    }
    return code;
}

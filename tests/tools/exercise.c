/*
 * exercise: random operations on one file, compared with a model in memory after every read.
 *
 *   exercise DIR [--ops N] [--seconds S] [--until FILE] [--seed S] [--size BYTES] [--no-map]
 *
 * Reads, writes, appends, truncates, maps (to read, to write), allocates, punches holes, syncs,
 * closes and opens again, renames, and looks at the size. The same seed gives the same operations.
 * It ends after so many, after so long, or when FILE is there.
 * At the first difference it prints where, what was wanted, and the last operations; exit 1.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PAST     60
#define LONGEST  (64u << 10) /* one operation */
#define PATH_LEN 4200

struct exercise {
    char paths[2][PATH_LEN]; /* the file has one of two names */
    int name, fd;
    int only_fd; /* it can only write: past the pages of `fd` */
    unsigned char *model, *scratch;
    size_t size, max;
    uint64_t random;
    bool maps, allocates, punches;
    unsigned long n;
    char past[PAST][160];
};

static uint64_t next_random(struct exercise *e)
{
    e->random ^= e->random << 13;
    e->random ^= e->random >> 7;
    e->random ^= e->random << 17;
    return e->random;
}

static size_t below(struct exercise *e, size_t limit)
{
    return limit ? (size_t)(next_random(e) % limit) : 0;
}

__attribute__((format(printf, 2, 3))) static void note(struct exercise *e, const char *fmt, ...)
{
    char *line = e->past[e->n % PAST];
    int at = snprintf(line, 160, "%8lu ", e->n);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line + at, 160 - (size_t)at, fmt, ap);
    va_end(ap);
}

static _Noreturn void fail(const struct exercise *e, const char *what)
{
    unsigned long first = e->n >= PAST ? e->n - PAST + 1 : 0;

    fprintf(stderr, "exercise: operation %lu: %s\nthe last operations:\n", e->n, what);
    for (unsigned long i = first; i <= e->n; i++)
        fprintf(stderr, "%s\n", e->past[i % PAST]);
    exit(1);
}

static _Noreturn void fail_errno(const struct exercise *e, const char *what)
{
    char text[200];

    snprintf(text, sizeof(text), "%s: %s", what, strerror(errno));
    fail(e, text);
}

static void compare(const struct exercise *e, const unsigned char *got, size_t off, size_t len)
{
    char text[200];

    for (size_t i = 0; i < len; i++) {
        if (got[i] == e->model[off + i])
            continue;
        size_t bad = 0;
        for (size_t k = i; k < len; k++)
            bad += got[k] != e->model[off + k];
        snprintf(text, sizeof(text),
                 "at %zu (%#zx): got %02x, want %02x; %zu of %zu bytes from %zu differ", off + i,
                 off + i, got[i], e->model[off + i], bad, len, off);
        fail(e, text);
    }
}

/* --- operations ----------------------------------------------------------------------------- */

static void op_read(struct exercise *e)
{
    size_t off = below(e, e->max), len = below(e, LONGEST);
    size_t want = off >= e->size ? 0 : e->size - off < len ? e->size - off : len;

    note(e, "read      %zu + %zu", off, len);
    ssize_t n = pread(e->fd, e->scratch, len, (off_t)off);
    if (n < 0)
        fail_errno(e, "read");
    if ((size_t)n != want) {
        char text[120];
        snprintf(text, sizeof(text), "read gave %zd bytes, want %zu (size %zu)", n, want, e->size);
        fail(e, text);
    }
    compare(e, e->scratch, off, want);
}

/* Bytes that tell which operation wrote them. */
static void fill(struct exercise *e, size_t len)
{
    uint64_t x = next_random(e) | 1;

    for (size_t i = 0; i < len; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        e->scratch[i] = (unsigned char)(x >> 56);
    }
}

static void grow(struct exercise *e, size_t size)
{
    if (size <= e->size)
        return;
    memset(e->model + e->size, 0, size - e->size);
    e->size = size;
}

static void write_at(struct exercise *e, int fd, size_t off, size_t len)
{
    fill(e, len);
    for (size_t done = 0; done < len;) {
        ssize_t n = pwrite(fd, e->scratch + done, len - done, (off_t)(off + done));
        if (n <= 0)
            fail_errno(e, "write");
        done += (size_t)n;
    }
    grow(e, off > e->size && len ? off : e->size);
    grow(e, off + len > e->size && len ? off + len : e->size);
    memcpy(e->model + off, e->scratch, len);
}

static void op_write(struct exercise *e)
{
    size_t len = below(e, LONGEST), off = below(e, e->max - len);
    bool only = below(e, 2);

    note(e, "write     %zu + %zu (size %zu)%s", off, len, e->size, only ? " (write-only)" : "");
    write_at(e, only ? e->only_fd : e->fd, off, len);
}

static void op_append(struct exercise *e)
{
    size_t len = below(e, 5000);

    if (e->size + len > e->max)
        return op_read(e);
    note(e, "append    %zu + %zu", e->size, len);
    int fd = open(e->paths[e->name], O_WRONLY | O_APPEND);
    if (fd < 0)
        fail_errno(e, "open to append");
    fill(e, len);
    if (write(fd, e->scratch, len) != (ssize_t)len)
        fail_errno(e, "append");
    if (close(fd) < 0)
        fail_errno(e, "close after append");
    size_t off = e->size;
    grow(e, off + len);
    memcpy(e->model + off, e->scratch, len);
}

static void op_truncate(struct exercise *e)
{
    size_t size = below(e, 3) ? below(e, e->max) : below(e, e->size + 1);
    bool by_name = below(e, 2);

    note(e, "truncate  %zu -> %zu%s", e->size, size, by_name ? " (by name)" : "");
    if ((by_name ? truncate(e->paths[e->name], (off_t)size) : ftruncate(e->fd, (off_t)size)) < 0)
        fail_errno(e, "truncate");
    grow(e, size);
    e->size = size;
}

static unsigned char *map(struct exercise *e, size_t off, size_t len, int prot, size_t *ret_slack)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t slack = off % page;
    void *at = mmap(NULL, len + slack, prot, MAP_SHARED, e->fd, (off_t)(off - slack));

    if (at == MAP_FAILED)
        fail_errno(e, "map");
    *ret_slack = slack;
    return (unsigned char *)at + slack;
}

static void op_map_read(struct exercise *e)
{
    size_t off = below(e, e->size), slack;
    size_t len = 1 + below(e, e->size - off < LONGEST ? e->size - off : LONGEST);

    if (!e->maps || !e->size)
        return op_read(e);
    note(e, "map read  %zu + %zu", off, len);
    unsigned char *at = map(e, off, len, PROT_READ, &slack);
    compare(e, at, off, len);
    munmap(at - slack, len + slack);
}

static void op_map_write(struct exercise *e)
{
    size_t off = below(e, e->size), slack;
    size_t len = 1 + below(e, e->size - off < LONGEST ? e->size - off : LONGEST);
    bool sync = below(e, 2);

    if (!e->maps || !e->size)
        return op_write(e);
    note(e, "map write %zu + %zu%s", off, len, sync ? " (synced)" : "");
    unsigned char *at = map(e, off, len, PROT_READ | PROT_WRITE, &slack);
    fill(e, len);
    memcpy(at, e->scratch, len);
    memcpy(e->model + off, e->scratch, len);
    if (sync && msync(at - slack, len + slack, MS_SYNC) < 0)
        fail_errno(e, "msync");
    munmap(at - slack, len + slack);
}

static void op_allocate(struct exercise *e)
{
    size_t len = 1 + below(e, LONGEST), off = below(e, e->max - len);
    bool keep = below(e, 2);

    if (!e->allocates)
        return op_write(e);
    note(e, "allocate  %zu + %zu%s", off, len, keep ? " (size kept)" : "");
    if (fallocate(e->fd, keep ? FALLOC_FL_KEEP_SIZE : 0, (off_t)off, (off_t)len) < 0) {
        if (errno != EOPNOTSUPP)
            fail_errno(e, "fallocate");
        e->allocates = false;
        return;
    }
    if (!keep)
        grow(e, off + len);
}

static void op_punch(struct exercise *e)
{
    size_t len = 1 + below(e, LONGEST), off = below(e, e->max - len);

    if (!e->punches)
        return op_truncate(e);
    note(e, "punch     %zu + %zu", off, len);
    if (fallocate(e->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off, (off_t)len) < 0) {
        if (errno != EOPNOTSUPP)
            fail_errno(e, "punch a hole");
        e->punches = false;
        return;
    }
    if (off < e->size)
        memset(e->model + off, 0, e->size - off < len ? e->size - off : len);
}

static void op_sync(struct exercise *e)
{
    note(e, "sync");
    if ((below(e, 2) ? fsync(e->fd) : fdatasync(e->fd)) < 0)
        fail_errno(e, "fsync");
}

static void op_reopen(struct exercise *e)
{
    note(e, "close, open");
    if (close(e->fd) < 0 || close(e->only_fd) < 0)
        fail_errno(e, "close");
    e->fd = open(e->paths[e->name], O_RDWR);
    e->only_fd = open(e->paths[e->name], O_WRONLY);
    if (e->fd < 0 || e->only_fd < 0)
        fail_errno(e, "open");
}

static void op_rename(struct exercise *e)
{
    note(e, "rename");
    if (rename(e->paths[e->name], e->paths[!e->name]) < 0)
        fail_errno(e, "rename");
    e->name = !e->name;
    if (access(e->paths[!e->name], F_OK) == 0)
        fail(e, "the old name is still there");
}

static void op_stat(struct exercise *e)
{
    struct stat st;
    char text[120];

    note(e, "stat");
    if ((below(e, 2) ? fstat(e->fd, &st) : stat(e->paths[e->name], &st)) < 0)
        fail_errno(e, "stat");
    if ((size_t)st.st_size == e->size)
        return;
    snprintf(text, sizeof(text), "size %lld, want %zu", (long long)st.st_size, e->size);
    fail(e, text);
}

static const struct {
    void (*run)(struct exercise *e);
    unsigned weight;
} ops[] = {
    {op_read, 24}, {op_write, 24},    {op_append, 3},    {op_truncate, 7},
    {op_stat, 8},  {op_map_read, 10}, {op_map_write, 9}, {op_allocate, 4},
    {op_punch, 4}, {op_sync, 2},      {op_reopen, 3},    {op_rename, 2},
};

static void step(struct exercise *e)
{
    unsigned total = 0, pick;

    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        total += ops[i].weight;
    pick = (unsigned)below(e, total);
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        if (pick < ops[i].weight) {
            ops[i].run(e);
            return;
        }
        pick -= ops[i].weight;
    }
}

/* --- the whole ------------------------------------------------------------------------------ */

static void begin(struct exercise *e, const char *dir)
{
    snprintf(e->paths[0], PATH_LEN, "%s/exercise-a", dir);
    snprintf(e->paths[1], PATH_LEN, "%s/exercise-b", dir);
    e->model = calloc(1, e->max + LONGEST);
    e->scratch = malloc(e->max + LONGEST);
    e->allocates = e->punches = true;
    e->fd = open(e->paths[0], O_RDWR | O_CREAT | O_TRUNC, 0644);
    e->only_fd = open(e->paths[0], O_WRONLY);
    if (!e->model || !e->scratch || e->fd < 0 || e->only_fd < 0)
        fail_errno(e, "begin");
}

/* All of it once more, through a new descriptor. */
static void end(struct exercise *e)
{
    note(e, "the end");
    if (close(e->fd) < 0 || close(e->only_fd) < 0 ||
        (e->fd = open(e->paths[e->name], O_RDONLY)) < 0)
        fail_errno(e, "open at the end");
    ssize_t n = pread(e->fd, e->scratch, e->max, 0);
    if (n < 0 || (size_t)n != e->size)
        fail(e, "the whole file has another size");
    compare(e, e->scratch, 0, e->size);
    close(e->fd);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"ops", 1, NULL, 'n'},  {"seconds", 1, NULL, 't'},
                                            {"seed", 1, NULL, 's'}, {"until", 1, NULL, 'u'},
                                            {"size", 1, NULL, 'z'}, {"no-map", 0, NULL, 'm'},
                                            {NULL, 0, NULL, 0}};
    struct exercise e = {.max = 256u << 10, .random = 1, .maps = true};
    unsigned long most = 20000;
    const char *ends = NULL;
    time_t until = 0;
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 'n')
            most = strtoul(optarg, NULL, 10);
        else if (c == 't')
            until = time(NULL) + strtol(optarg, NULL, 10), most = ~0ul;
        else if (c == 's')
            e.random = strtoull(optarg, NULL, 10) * 2654435761u + 1;
        else if (c == 'z')
            e.max = strtoul(optarg, NULL, 10);
        else if (c == 'u')
            ends = optarg, most = ~0ul;
        else if (c == 'm')
            e.maps = false;
        else
            return 2;
    }
    if (optind + 1 != argc || e.max < 2 * LONGEST) {
        fprintf(stderr,
                "exercise DIR [--ops N] [--seconds S] [--until FILE] [--seed S] "
                "[--size BYTES >= %u]\n",
                2 * LONGEST);
        return 2;
    }
    begin(&e, argv[optind]);
    for (e.n = 0; e.n < most && (!until || time(NULL) < until) && !(ends && !access(ends, F_OK));
         e.n++)
        step(&e);
    end(&e);
    printf("exercise: %lu operations, no difference\n", e.n);
    return 0;
}

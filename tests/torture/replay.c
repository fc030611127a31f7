/*
 * replay --list LOG: the ops, one a line.
 * replay [--apart N] LOG SEED FOLDER: the recorded folders as a power cut may leave them, in
 * FOLDER/0, FOLDER/1 …; those from number N on are on another machine, which loses nothing.
 *
 * The seed picks the moment, and how unkind the disk was. What a sync had covered is there: a
 * file's bytes and size by a sync of the file, a name by a sync of its folder. Of the rest:
 *
 *   names    each op is kept or lost by itself; or (a disk with a journal) all up to some op are
 *            kept
 *   bytes    each sector of 512 bytes has the state after some of the ops that touched it: a
 *            prefix of them, since a sector goes to the disk as it is at that time; sectors are
 *            independent
 *   size     what the kept bytes need, up to what it was: a hole where bytes were lost
 *
 * Prints one line of JSON: {"ops":N,"cut":N,"names":"…","marks":["…",…]}: the marks before the cut.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "oplog.h"

struct entry { /* one op of the log, with what follows it */
    const struct op *op;
    const char *name, *name2;
    const unsigned char *data;
    bool kept; /* of ops on names */
};

struct node {
    uint64_t ino;
    uint32_t kind; /* OP_CREATE, OP_MKDIR, OP_SYMLINK, OP_ROOT */
    char *target;
    uint64_t synced; /* ops below this number are on the disk */
    bool apart;      /* on a machine whose power does not fail */
    uint64_t mtime_ns;
};

struct name {
    uint64_t dir, ino;
    char *text;
};

static struct entry *ops;
static size_t n_ops, cut, apart = SIZE_MAX;
static struct node *nodes;
static size_t n_nodes;
static struct name *names;
static size_t n_names;
static uint64_t random_state;

/* --- chance --------------------------------------------------------------------------------------
 */

static uint64_t next_random(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static bool chance(unsigned percent)
{
    return next_random() % 100 < percent;
}

/* How much of what was not synced the disk has: often all or nothing, as it is in life. */
static unsigned kindness(void)
{
    static const unsigned of[] = {0, 0, 20, 50, 80, 95, 100, 100};
    return of[next_random() % 8];
}

/* --- the log -------------------------------------------------------------------------------------
 */

static void *grown(void *array, size_t n, size_t each)
{
    if (n & (n - 1)) /* room doubles at powers of two */
        return array;
    void *more = realloc(array, (n ? n * 2 : 1) * each);
    if (!more)
        exit(2);
    return more;
}

static struct node *node_of(uint64_t ino)
{
    for (size_t i = 0; i < n_nodes; i++)
        if (nodes[i].ino == ino)
            return &nodes[i];
    nodes = grown(nodes, n_nodes, sizeof *nodes);
    nodes[n_nodes] = (struct node){.ino = ino};
    return &nodes[n_nodes++];
}

static int load(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) || st.st_size == 0)
        return -1;
    const char *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (at == MAP_FAILED)
        return -1;
    for (const char *end = at + st.st_size; at < end;) {
        /* Ops lie where the bytes before them end: a copy is aligned. */
        struct op *op = malloc(sizeof *op);
        if (!op || (size_t)(end - at) < sizeof *op)
            return -1;
        memcpy(op, at, sizeof *op);
        const char *name = at + sizeof *op, *name2 = name + op->name_len;
        const char *data = name2 + op->name2_len;
        if (op->magic != OPLOG_MAGIC || data + op->len > end)
            return -1;
        ops = grown(ops, n_ops, sizeof *ops);
        ops[n_ops++] = (struct entry){.op = op,
                                      .name = strndup(name, op->name_len),
                                      .name2 = strndup(name2, op->name2_len),
                                      .data = (const unsigned char *)data};
        at = data + op->len;
    }
    return 0;
}

static bool on_names(uint32_t kind)
{
    return kind >= OP_CREATE && kind <= OP_RENAME;
}

/* What all files are and how far they are synced, at the cut. */
static void look_at_nodes(void)
{
    for (size_t i = 0, roots = 0; i < cut; i++) {
        const struct op *op = ops[i].op;
        if (op->kind == OP_ROOT ? roots++ >= apart
                                : on_names(op->kind) && node_of(op->dir)->apart) {
            node_of(op->ino)->apart = true;
            node_of(op->ino)->synced = cut;
        }
        if (op->kind == OP_TIMES)
            node_of(op->ino)->mtime_ns = op->off;
        if (op->kind == OP_SYNC) {
            struct node *n = node_of(op->ino);
            n->synced = op->off > n->synced ? op->off : n->synced;
        } else if (op->kind == OP_ROOT || op->kind == OP_CREATE || op->kind == OP_MKDIR ||
                   op->kind == OP_SYMLINK) {
            struct node *n = node_of(op->ino);
            n->kind = op->kind;
            n->target = op->kind == OP_SYMLINK ? (char *)(uintptr_t)ops[i].name2 : NULL;
        }
    }
}

/* --- names ---------------------------------------------------------------------------------------
 */

static bool name_is_synced(size_t i)
{
    const struct op *op = ops[i].op;
    return i < node_of(op->dir)->synced || (op->kind == OP_RENAME && i < node_of(op->dir2)->synced);
}

/* A journal on the disk keeps order: nothing is there that came after something lost. */
static const char *choose_names(void)
{
    bool ordered = chance(50);
    size_t until = 0;
    unsigned kind = kindness();
    for (size_t i = 0; i < cut; i++)
        if (on_names(ops[i].op->kind) && name_is_synced(i) && !node_of(ops[i].op->dir)->apart)
            until = i + 1;
    if (ordered)
        until += next_random() % (cut - until + 1);
    for (size_t i = 0; i < cut; i++) {
        if (!on_names(ops[i].op->kind))
            continue;
        ops[i].kept = node_of(ops[i].op->dir)->apart ||
                      (ordered ? i < until : name_is_synced(i) || chance(kind));
    }
    return ordered ? "in order" : kind == 100 ? "all" : kind == 0 ? "synced" : "any";
}

static struct name *name_of(uint64_t dir, const char *text)
{
    for (size_t i = 0; i < n_names; i++)
        if (names[i].dir == dir && strcmp(names[i].text, text) == 0)
            return &names[i];
    return NULL;
}

static void set_name(uint64_t dir, const char *text, uint64_t ino)
{
    struct name *n = name_of(dir, text);
    if (!n) {
        names = grown(names, n_names, sizeof *names);
        n = &names[n_names++];
        *n = (struct name){.dir = dir, .text = strdup(text)};
    }
    n->ino = ino;
}

static void apply_names(void)
{
    for (size_t i = 0; i < cut; i++) {
        const struct op *op = ops[i].op;
        if (!on_names(op->kind) || !ops[i].kept)
            continue;
        struct name *old = name_of(op->dir, ops[i].name);
        if (op->kind == OP_RENAME)
            set_name(op->dir2, ops[i].name2, op->ino);
        if (op->kind != OP_RENAME && op->kind != OP_UNLINK)
            set_name(op->dir, ops[i].name, op->ino);
        else if ((old = name_of(op->dir, ops[i].name)))
            old->ino = 0;
    }
}

/* --- bytes ---------------------------------------------------------------------------------------
 */

struct content {
    unsigned char *bytes;
    bool *frozen; /* a sector whose later ops are lost */
    uint64_t size, most;
};

static void make_room(struct content *c, uint64_t size)
{
    if (size <= c->most)
        return;
    uint64_t sectors = (c->most + SECTOR - 1) / SECTOR, now = (size + SECTOR - 1) / SECTOR;
    c->bytes = realloc(c->bytes, now * SECTOR);
    c->frozen = realloc(c->frozen, now * sizeof *c->frozen);
    if (!c->bytes || !c->frozen)
        exit(2);
    memset(c->bytes + sectors * SECTOR, 0, (now - sectors) * SECTOR);
    memset(c->frozen + sectors, 0, (now - sectors) * sizeof *c->frozen);
    c->most = size;
}

/* Was the sector part of a range that was synced after op `i`? */
static bool range_is_synced(const struct node *n, size_t i, uint64_t at)
{
    for (size_t k = i + 1; k < cut; k++) {
        const struct op *op = ops[k].op;
        if (op->kind == OP_RANGE && op->ino == n->ino && i < op->off && at >= op->dir &&
            at < op->dir2)
            return true;
    }
    return false;
}

static void apply_bytes(struct content *c, const struct node *n, size_t i, unsigned kind)
{
    const struct entry *e = &ops[i];
    uint64_t end = e->op->off + e->op->len;
    make_room(c, end);
    bool whole = chance(50), all = chance(kind); /* most writes are not torn */
    for (uint64_t at = e->op->off; at < end;) {
        uint64_t sector = at / SECTOR, next = (sector + 1) * SECTOR;
        uint64_t to = next < end ? next : end;
        if (i >= n->synced && !(whole ? all : chance(kind)) &&
            !(e->op->kind == OP_STORE && range_is_synced(n, i, at)))
            c->frozen[sector] = true;
        if (!c->frozen[sector]) {
            memcpy(c->bytes + at, e->data + (at - e->op->off), to - at);
            if (to > c->size)
                c->size = to;
        }
        at = to;
    }
}

static void apply_size(struct content *c, uint64_t size)
{
    make_room(c, size);
    if (size < c->size)
        memset(c->bytes + size, 0, c->size - size);
    c->size = size;
}

static void build(const struct node *n, struct content *c)
{
    uint64_t true_size = 0;
    unsigned kind = kindness();
    for (size_t i = 0; i < cut; i++) {
        const struct op *op = ops[i].op;
        if (op->ino != n->ino)
            continue;
        if (op->kind == OP_WRITE || op->kind == OP_STORE) {
            apply_bytes(c, n, i, kind);
            true_size = op->off + op->len > true_size ? op->off + op->len : true_size;
        } else if (op->kind == OP_TRUNCATE) {
            if (i < n->synced || chance(kind))
                apply_size(c, op->off);
            true_size = op->off;
        }
    }
    if (true_size > c->size && !n->apart && chance(50))
        apply_size(c, c->size + 1 + next_random() % (true_size - c->size));
}

static int write_file(const struct node *n, const char *path)
{
    struct content c = {0};
    build(n, &c);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), rc = -1;
    if (fd >= 0 && write(fd, c.bytes, c.size) == (ssize_t)c.size)
        rc = 0;
    /* A store's files get theirs before they are synced and named; nothing else goes by times. */
    const struct timespec t = {(time_t)(n->mtime_ns / 1000000000u),
                               (long)(n->mtime_ns % 1000000000u)};
    if (fd >= 0 && n->mtime_ns)
        futimens(fd, (const struct timespec[2]){t, t});
    if (fd >= 0)
        close(fd);
    free(c.bytes);
    free(c.frozen);
    return rc;
}

/* --- the folders ---------------------------------------------------------------------------------
 */

static int write_tree(uint64_t dir, const char *path)
{
    char below[4096];
    if (mkdir(path, 0700) && errno != EEXIST)
        return -1;
    for (size_t i = 0; i < n_names; i++) {
        if (names[i].dir != dir || !names[i].ino)
            continue;
        const struct node *n = node_of(names[i].ino);
        snprintf(below, sizeof below, "%s/%s", path, names[i].text);
        int rc = n->kind == OP_MKDIR     ? write_tree(n->ino, below)
                 : n->kind == OP_SYMLINK ? symlink(n->target, below)
                                         : write_file(n, below);
        if (rc)
            return -1;
    }
    return 0;
}

static int write_roots(const char *folder)
{
    char path[4096];
    size_t root = 0;
    if (mkdir(folder, 0700) && errno != EEXIST)
        return -1;
    for (size_t i = 0; i < n_ops && ops[i].op->kind == OP_ROOT; i++) {
        snprintf(path, sizeof path, "%s/%zu", folder, root++);
        if (write_tree(ops[i].op->ino, path))
            return -1;
    }
    return 0;
}

static void list(void)
{
    static const char *const kinds[] = {"",         "root",   "create", "mkdir", "symlink",
                                        "link",     "unlink", "rename", "write", "store",
                                        "truncate", "sync",   "range",  "times", "mark"};
    for (size_t i = 0; i < n_ops; i++) {
        const struct op *op = ops[i].op;
        printf("%zu %s ino %llu", i, kinds[op->kind], (unsigned long long)op->ino);
        if (on_names(op->kind) || op->kind == OP_ROOT || op->kind == OP_MARK)
            printf(" name %llu/%s %s", (unsigned long long)op->dir, ops[i].name, ops[i].name2);
        else
            printf(" at %llu len %u", (unsigned long long)op->off, op->len);
        putchar('\n');
    }
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--list") == 0 && load(argv[2]) == 0) {
        list();
        return 0;
    }
    if (argc > 3 && strcmp(argv[1], "--apart") == 0) {
        apart = strtoull(argv[2], NULL, 10);
        argv += 2;
        argc -= 2;
    }
    if (argc != 4 || load(argv[1])) {
        fprintf(stderr, "usage: replay LOG SEED FOLDER (or the log is damaged)\n");
        return 2;
    }
    size_t roots = 0;
    random_state = strtoull(argv[2], NULL, 10) * 0x2545f4914f6cdd1du + 1;
    while (roots < n_ops && ops[roots].op->kind == OP_ROOT)
        roots++;
    cut = roots + next_random() % (n_ops - roots + 1);
    for (size_t i = 0; i < n_ops; i++) /* all nodes now: the array may not move later */
        node_of(ops[i].op->ino), node_of(ops[i].op->dir), node_of(ops[i].op->dir2);
    look_at_nodes();
    const char *how = choose_names();
    apply_names();
    if (write_roots(argv[3])) {
        perror(argv[3]);
        return 2;
    }
    printf("{\"ops\":%zu,\"cut\":%zu,\"names\":\"%s\",\"marks\":[", n_ops, cut, how);
    bool first = true;
    for (size_t i = 0; i < cut; i++)
        if (ops[i].op->kind == OP_MARK) {
            printf("%s\"%s\"", first ? "" : ",", ops[i].name);
            first = false;
        }
    printf("]}\n");
    return 0;
}

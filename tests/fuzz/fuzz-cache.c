/*
 * A cache whose files were damaged: it opens or says why not, and what it serves are the bytes of
 * the source, whatever its files claim.
 *
 * The first byte says what is sealed again after the damage, so that it is met behind the checks:
 * 1 records of the journal, 2 the head of the index, 4 heads of records in the pack. Then pieces
 * {file, place (2 bytes), length (1), bytes}; a length of 0 cuts the file there.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache-internal.h"
#include "crc.h"
#include "must.h"

#define UNITS     12
#define FILES_MAX 16
#define LIMIT     (16u << 20)

static char top[64], dir[80], store[80];
static struct catalog *catalog;
static uint64_t first; /* unit */
static struct pool *pool;
static struct file {
    char name[64];
    size_t len;
    unsigned char *bytes;
} files[FILES_MAX];
static size_t n_files;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* --- the source ------------------------------------------------------------------------------- */

static uint32_t len_of(uint64_t unit)
{
    uint64_t n = unit - first;
    return n == UNITS - 1 ? 140000 : 700 + 700 * (uint32_t)n; /* one has two chunks */
}

static unsigned char byte_of(uint64_t unit, uint64_t at)
{
    return (unsigned char)(unit * 31 + at % 251);
}

static int store_read(struct source *s, const struct piece *p, struct view *ret,
                      struct source_wait *wait, struct err *err)
{
    (void)s, (void)wait, (void)err;
    unsigned char *out = p->into->data;
    for (uint32_t i = 0; i < len_of(p->unit); i++)
        out[i] = byte_of(p->unit, i);
    *ret = (struct view){.ptr = out, .len = len_of(p->unit), .origin = FROM_STORE};
    return 0;
}

static const struct source_ops ops = {.name = "store", .read = store_read};

/* --- the files -------------------------------------------------------------------------------- */

static void each_file(const char *folder, void (*fn)(const char *path, const char *name))
{
    DIR *d = opendir(folder);
    char path[400];
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (e->d_name[0] != '.')
            fn(path, e->d_name);
    }
    must(d != NULL);
    closedir(d);
}

static void keep_file(const char *path, const char *name)
{
    struct file *f = &files[n_files++];
    int fd = open(path, O_RDONLY);
    struct stat st;
    must(n_files <= FILES_MAX && fd >= 0 && fstat(fd, &st) == 0);
    snprintf(f->name, sizeof f->name, "%s", name);
    f->bytes = xmalloc((size_t)st.st_size);
    f->len = (size_t)st.st_size;
    must(read(fd, f->bytes, f->len) == st.st_size);
    close(fd);
}

static void remove_file(const char *path, const char *name)
{
    (void)name;
    unlink(path);
}

static void seal_journal(struct file *f)
{
    for (size_t at = 0; at + sizeof(struct journal_record) <= f->len;
         at += sizeof(struct journal_record)) {
        struct journal_record *r = (struct journal_record *)(void *)(f->bytes + at);
        r->crc = crc32c(0, r, sizeof *r - sizeof r->crc);
    }
}

static void seal_index(struct file *f)
{
    struct index_head *h = (struct index_head *)(void *)f->bytes;
    if (f->len >= sizeof *h)
        h->crc = crc32c(0, f->bytes + 8, offsetof(struct index_head, unused) - 8);
}

static void seal_pack(struct file *f)
{
    for (size_t at = sizeof(struct pack_head); at + sizeof(struct record_head) <= f->len;
         at += RECORD_ALIGN) {
        struct record_head *h = (struct record_head *)(void *)(f->bytes + at);
        size_t left = f->len - at - sizeof *h;
        if (h->magic == RECORD_MAGIC && h->chunks * sizeof(struct chunk) <= left)
            record_seal(h, (struct chunk *)(void *)(h + 1));
    }
}

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

static void damage(struct file *copy, const uint8_t *p, const uint8_t *end)
{
    while (end - p >= 4) {
        struct file *f = &copy[p[0] % n_files];
        size_t at = p[1] | (size_t)p[2] << 8, len = p[3];
        p += 4;
        if (len == 0 && at < f->len)
            f->len = at;
        for (; len && p < end; len--, at++, p++)
            if (at < f->len)
                f->bytes[at] = *p;
    }
}

static void put_files(const uint8_t *data, size_t size)
{
    struct file copy[FILES_MAX];
    unsigned seal = size ? data[0] : 0;
    char path[200];
    for (size_t i = 0; i < n_files; i++) {
        copy[i] = files[i];
        copy[i].bytes = xmalloc(files[i].len + 1);
        memcpy(copy[i].bytes, files[i].bytes, files[i].len);
    }
    if (size)
        damage(copy, data + 1, data + size);
    for (size_t i = 0; i < n_files; i++) {
        if (seal & 1 && ends_in(copy[i].name, ".idx"))
            seal_journal(&copy[i]);
        if (seal & 2 && strcmp(copy[i].name, "index") == 0)
            seal_index(&copy[i]);
        if (seal & 4 && ends_in(copy[i].name, ".pack"))
            seal_pack(&copy[i]);
        snprintf(path, sizeof path, "%s/%s", dir, copy[i].name);
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        must(fd >= 0 && write(fd, copy[i].bytes, copy[i].len) == (ssize_t)copy[i].len);
        close(fd);
        free(copy[i].bytes);
    }
}

/* --- the cache -------------------------------------------------------------------------------- */

static struct source *open_cache(struct cache **ret, struct source *from)
{
    struct cache_conf conf = {.dir = dir, .n_tiers = 1, .pool = pool, .set_id = "set#1"};
    struct err err = {0};
    conf.tiers[0] = (struct tier_conf){.kind = TIER_SSD, .dir = dir, .limit = LIMIT};
    if (cache_open(ret, &conf, &err)) {
        must(err.class != ERR_NONE && err.class != ERR_BUG && err.msg[0]);
        return NULL;
    }
    return cache_source(*ret, from);
}

struct call {
    struct source_wait wait;
    struct view view;
    atomic_int outcome; /* 1: done; -1: failed */
};

static void call_done(struct source_wait *wait, struct view *view, const struct err *err)
{
    struct call *c = (struct call *)(void *)wait;
    if (view)
        c->view = *view;
    atomic_store(&c->outcome, err ? -1 : 1);
}

static void check_bytes(uint64_t unit, uint32_t off, const void *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        must(((const unsigned char *)bytes)[i] == byte_of(unit, off + i));
}

static void read_unit(struct source *s, uint64_t unit, uint32_t off)
{
    struct piece p = {.catalog = catalog, .unit = unit, .off = off, .len = UNIT_BYTES};
    struct call c = {.wait.done = call_done};
    struct err err = {0};
    int rc = source_read(s, &p, &c.view, &c.wait, &err);
    while (rc == SOURCE_PENDING && !atomic_load(&c.outcome))
        usleep(10);
    must(rc == 0 || (rc == SOURCE_PENDING && c.outcome == 1));
    must(c.view.len == len_of(unit) - off);
    check_bytes(unit, off, c.view.ptr, c.view.len);
    view_release(&c.view);
}

/* Who gets a part compares its length and its bytes with what it was told, and believes nothing
 * else; all of it must be there. */
static void check_part(struct cache *c, uint64_t unit, const struct cache_part *part)
{
    cleanup_free unsigned char *bytes = xmalloc(UNIT_BYTES);
    struct err err = {0};
    uint64_t lease;
    int fd;
    must(part->len <= UNIT_BYTES);
    if (part->pack && cache_part_lease(c, part, &fd, &lease, &err)) {
        must(err.class == ERR_NOT_FOUND); /* what was read before has its pack rewritten */
        return;
    }
    if (part->pack) {
        must(pread(fd, bytes, part->len, (off_t)part->offset) == (ssize_t)part->len);
        close(fd);
        cache_extent_return(c, lease);
    } else {
        memcpy(bytes, part->view.ptr, part->len);
    }
    if (part->len == len_of(unit) && crc32c(0, bytes, part->len) == part->crc)
        check_bytes(unit, 0, bytes, part->len);
}

static void use(struct source *from)
{
    struct cache *c;
    struct cache_stat stat;
    struct source *s = open_cache(&c, from);
    if (!s)
        return;
    for (uint64_t unit = first; unit < first + UNITS; unit++) {
        struct cache_part part;
        if (cache_part_find(c, unit, 0, UNIT_BYTES, &part, NULL) == 0) {
            check_part(c, unit, &part);
            cache_part_release(&part);
        }
        cache_verify(c, unit, NULL);
        read_unit(s, unit, 500);
        read_unit(s, unit, 0);
    }
    must(cache_flush(c, NULL) == 0);
    cache_stat(c, &stat);
    must(stat.tiers[0].used <= LIMIT);
    s->ops->close(s);
}

/* --- */

static void build_catalog(void)
{
    static const struct catalog_source_row sources[] = {{"s3://a", ""}};
    struct catalog_builder *b;
    char key[8], *file = NULL;
    must(mkdir(store, 0700) == 0 && catalog_builder_new(&b, store, NULL, sources, 1, NULL) == 0);
    for (unsigned n = 0; n < UNITS; n++) {
        struct row r = {.key = key, .size = len_of(first + n), .mtime_ns = 1};
        r.key_len = (size_t)snprintf(key, sizeof key, "k%02u", n);
        must(catalog_builder_add(b, &r, NULL) == 0);
    }
    must(catalog_builder_finish(b, NULL, &file, NULL, NULL) == 0 &&
         catalog_open(&catalog, file, NULL) == 0 &&
         catalog_numbers(catalog, 0, 1, &first, NULL) == 0);
    catalog_builder_free(b);
    free(file);
}

static void remove_all(void)
{
    each_file(dir, remove_file);
    rmdir(dir);
    each_file(store, remove_file);
    rmdir(store);
    rmdir(top);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    struct source from = {.ops = &ops};
    snprintf(top, sizeof top, "/dev/shm/sampan-fuzz-cache-XXXXXX");
    must(mkdtemp(top) != NULL);
    snprintf(dir, sizeof dir, "%s/cache", top);
    snprintf(store, sizeof store, "%s/catalog", top);
    must(mkdir(dir, 0700) == 0);
    atexit(remove_all);
    build_catalog();
    pool = pool_new(64u << 20);
    use(&from);
    each_file(dir, keep_file);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct source from = {.ops = &ops};
    each_file(dir, remove_file);
    put_files(data, size);
    use(&from);
    return 0;
}

/*
 * share, catalog: what the runtime server sends to other machines. The bytes of samples leave this
 * process as places in packs, each pack once, as a descriptor under a lease; what no pack has as it
 * is (in memory still, or compressed) goes into a file in memory, at most SHARE_BYTES of it.
 */
#include "serve-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "clock.h"
#include "crc.h"
#include "file.h"
#include "mem.h"
#include "peer-frames.h"

#define SHARE_BYTES    PEER_BYTES_MAX
#define SHARE_FILES    (CONTROL_FDS_MAX - 1)
#define ARRIVES_WITHIN (30 * NS_PER_S) /* else who asked for the catalog asks again */

struct file {
    const struct pack *pack; /* known by its address while the lease holds it */
    uint64_t lease;
};

struct share {
    struct request *r;
    struct catalog *catalog;
    uint64_t bytes;                 /* promised so far */
    bool packs_only;                /* for who reads by itself: what lies in none is absent */
    struct file files[SHARE_FILES]; /* beside r->fds; a NULL pack is the file in memory */
    struct bytes text;              /* of the sample at hand */
    uint64_t memory_len;
    int memory; /* its place among the files, -1: none yet */
};

struct wanted {
    uint64_t id, off, len;
};

/* --- files ------------------------------------------------------------------------------------ */

static int add_file(struct share *s, int fd, const struct pack *pack, uint64_t lease)
{
    s->files[s->r->n_fds] = (struct file){pack, lease};
    s->r->fds[s->r->n_fds] = fd;
    return (int)s->r->n_fds++;
}

static int pack_file(struct share *s, const struct cache_part *p, struct err *err)
{
    int fd;
    uint64_t lease;
    for (size_t i = 0; i < s->r->n_fds; i++)
        if (s->files[i].pack == p->pack)
            return (int)i;
    if (s->r->n_fds == SHARE_FILES)
        return err_set(err, ERR_LIMIT, "share: more than %d packs (ask for less)", SHARE_FILES);
    if (cache_part_lease(volume_cache(s->r->volume), p, &fd, &lease, err))
        return -1;
    int place = add_file(s, fd, p->pack, lease);
    return lease_note(s->r->connection, lease, err) ? -1 : place;
}

static int memory_file(struct share *s, struct err *err)
{
    if (s->memory >= 0)
        return s->memory;
    if (s->r->n_fds == SHARE_FILES)
        return err_set(err, ERR_LIMIT, "share: more than %d packs (ask for less)", SHARE_FILES);
    int fd = memfd_create("sampan-share", MFD_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "share: a file in memory");
    s->memory = add_file(s, fd, NULL, 0);
    return s->memory;
}

static int put_in_memory(struct share *s, const struct view *v, uint64_t *ret_offset,
                         struct err *err)
{
    int place = memory_file(s, err);
    if (place < 0)
        return -1;
    if (file_write(s->r->fds[place], v->ptr, v->len, s->memory_len))
        return err_sys(err, errno, "share: a file in memory");
    *ret_offset = s->memory_len;
    s->memory_len += v->len;
    return place;
}

/* --- one sample ------------------------------------------------------------------------------- */

/* A part's place, as the answer says it: [file, offset, length]. */
static int add_part(struct share *s, const struct cache_part *p, struct json_writer *w,
                    struct err *err)
{
    uint64_t offset = p->offset;
    if (!p->pack && s->packs_only)
        return err_set(err, ERR_NOT_FOUND, "it lies in no pack as it is");
    int place = p->pack ? pack_file(s, p, err) : put_in_memory(s, &p->view, &offset, err);
    if (place < 0)
        return -1;
    jw_array(w, NULL);
    jw_uint(w, NULL, (uint64_t)place);
    jw_uint(w, NULL, offset);
    jw_uint(w, NULL, p->len);
    jw_end(w);
    return 0;
}

/* The range, unit by unit. NOT_FOUND: a unit of it is not here. */
static int add_units(struct share *s, const struct wanted *want, struct json_writer *w,
                     uint32_t *ret_crc, uint64_t *ret_len, struct err *err)
{
    uint64_t off = want->off, end = want->off + want->len;
    do {
        struct cache_part p;
        uint32_t in_unit = (uint32_t)(off % UNIT_BYTES);
        uint64_t left = end - off, room = UNIT_BYTES - in_unit;
        if (cache_part_find(volume_cache(s->r->volume), want->id + off / UNIT_BYTES, in_unit,
                            (uint32_t)(left < room ? left : room), &p, err))
            return -1;
        int rc = p.len ? add_part(s, &p, w, err) : 0;
        *ret_crc = crc32c_combine(*ret_crc, p.crc, p.len);
        *ret_len += p.len;
        off += p.len;
        bool last = p.len < left && p.len < room; /* the unit ends before the range does */
        cache_part_release(&p);
        if (rc)
            return -1;
        if (last)
            break;
    } while (off < end);
    return 0;
}

/* A range that leaves the first unit, and a sample as a whole, need the row: past a sample's end
 * lie the numbers of another one. */
static int cut_to_sample(struct share *s, struct wanted *want, struct err *err)
{
    struct entry e;
    if (want->len != UINT64_MAX && want->off + want->len <= UNIT_BYTES)
        return 0;
    if (catalog_get(s->catalog, want->id, &e, err))
        return -1;
    if (e.folder)
        return err_set(err, ERR_USAGE, "id %llu is a folder", (unsigned long long)want->id);
    want->off = want->off < e.size ? want->off : e.size;
    want->len = want->len < e.size - want->off ? want->len : e.size - want->off;
    return 0;
}

static int find_sample(struct share *s, struct wanted *want, struct json_writer *w,
                       uint32_t *ret_crc, uint64_t *ret_len, struct err *err)
{
    if (cut_to_sample(s, want, err))
        return -1;
    if (want->len > SHARE_BYTES - s->bytes)
        return err_set(err, ERR_LIMIT, "more than %u bytes in one request (ask for ranges)",
                       SHARE_BYTES);
    return add_units(s, want, w, ret_crc, ret_len, err);
}

static void write_sample(struct share *s, struct wanted *want)
{
    struct json_writer parts;
    struct json_writer *w = s->r->w;
    struct err e = {0};
    uint32_t crc = 0;
    uint64_t len = 0, memory_len = s->memory_len;
    bytes_clear(&s->text);
    jw_init(&parts, &s->text);
    jw_array(&parts, NULL);
    int rc = find_sample(s, want, &parts, &crc, &len, &e);
    jw_end(&parts);
    if (rc)
        s->memory_len = memory_len; /* what there is of it is written over */
    jw_object(w, NULL);
    if (!rc) {
        s->bytes += len;
        jw_str(w, "status", "here");
        jw_uint(w, "length", len);
        jw_uint(w, "crc", crc);
        jw_raw(w, "parts", s->text.data);
    } else if (e.class == ERR_NOT_FOUND) {
        jw_str(w, "status", "absent");
    } else {
        jw_str(w, "status", "error");
        jw_str(w, "error", e.msg);
    }
    jw_end(w);
}

static int read_wanted(const struct json *j, struct wanted *ret, struct err *err)
{
    static const char *const keys[] = {"id", "offset", "length", NULL};
    int64_t id, off, len;
    if (json_want_object(j, err) || json_only_keys(j, keys, err) ||
        json_int(j, "id", 1, INT64_MAX / 2, &id, err) ||
        json_int_or(j, "offset", 0, INT64_MAX / 2, 0, &off, err) ||
        json_int_or(j, "length", 0, INT64_MAX / 2, -1, &len, err))
        return -1;
    *ret = (struct wanted){(uint64_t)id, (uint64_t)off, len < 0 ? UINT64_MAX : (uint64_t)len};
    return 0;
}

/* --- the operations --------------------------------------------------------------------------- */

static int return_leases(struct request *r, struct err *err)
{
    struct json list = json_get(&r->root, "return");
    if (!list.node)
        return 0;
    if (json_want_array(&list, err))
        return -1;
    for (size_t i = 0, n = json_count(&list); i < n; i++) {
        struct json one = json_at(&list, i);
        int64_t lease;
        if (json_as_int(&one, 0, INT64_MAX, &lease, err))
            return -1;
        lease_return(r->connection, (uint64_t)lease); /* revoked meanwhile: nothing is left of it */
    }
    return 0;
}

static int named_version(struct request *r, struct catalog **ret, struct err *err)
{
    const char *version, *ids;
    char *end = NULL;
    if (json_str(&r->root, "version", &version, err) || json_str(&r->root, "ids", &ids, err))
        return -1;
    uint64_t n = strtoull(ids, &end, 16);
    if (!n || *end || strlen(ids) > 16)
        return err_set(err, ERR_USAGE, "ids: want up to 16 hexadecimal digits that are not 0");
    *ret = volume_catalog_named(r->volume, version, n);
    return *ret ? 0
                : err_set(err, ERR_STALE,
                          "another version is served here than %.12s (scan, or fetch that catalog)",
                          version);
}

static int share_samples(struct share *s, const struct json *samples, struct err *err)
{
    size_t n = json_count(samples);
    if (json_want_array(samples, err))
        return -1;
    if (n > PEER_SAMPLES_MAX)
        return err_set(err, ERR_USAGE, "samples: %zu of them: at most %u", n, PEER_SAMPLES_MAX);
    jw_array(s->r->w, "samples");
    for (size_t i = 0; i < n; i++) {
        struct json one = json_at(samples, i);
        struct wanted want;
        if (read_wanted(&one, &want, err))
            return -1;
        write_sample(s, &want);
    }
    jw_end(s->r->w);
    jw_array(s->r->w, "leases");
    for (size_t i = 0; i < s->r->n_fds; i++)
        if (s->files[i].pack)
            jw_uint(s->r->w, NULL, s->files[i].lease);
    jw_end(s->r->w);
    return 0;
}

int op_share(struct request *r, struct err *err)
{
    struct share s = {.r = r, .memory = -1};
    struct json samples = json_get(&r->root, "samples");
    if (json_bool_or(&r->root, "packs", false, &s.packs_only, err) || return_leases(r, err) ||
        named_version(r, &s.catalog, err))
        return -1;
    int rc = share_samples(&s, &samples, err);
    catalog_unref(s.catalog);
    bytes_release(&s.text);
    for (size_t i = 0; rc && i < r->n_fds; i++)
        if (s.files[i].pack)
            lease_return(r->connection, s.files[i].lease);
    return rc;
}

/* Packs come from the cache as they are to be given away; a catalog's file is not the cache's. */
static int open_to_give(const char *path)
{
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    cleanup_close int view = fd < 0 ? -1 : cache_read_only_view(fd);
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", view);
    return view < 0 ? take_fd(&fd) : open(link, O_RDONLY | O_CLOEXEC);
}

/* A catalog that is still on its way is waited for, while this server goes on. */
static int await_whole(struct request *r, const struct catalog *c, struct err *err)
{
    uint64_t give_up = clock_mono_ns() + ARRIVES_WITHIN;
    for (;;) {
        struct err e = {0};
        if (catalog_whole(c, 100 * NS_PER_MS, &e) == 0)
            return 0;
        if (e.class == ERR_TRANSIENT && clock_mono_ns() < give_up &&
            !server_stopping(r->connection->server))
            continue;
        *err = e;
        return -1;
    }
}

int op_catalog(struct request *r, struct err *err)
{
    const char *version;
    if (json_str_or(&r->root, "version", "", &version, err))
        return -1;
    struct catalog *c =
        *version ? volume_catalog_named(r->volume, version, 0) : volume_catalog(r->volume);
    if (!c)
        return err_set(err, ERR_NOT_FOUND, "no version %.64s is kept here", version);
    const struct catalog_info *info = catalog_info(c);
    char ids[17];
    snprintf(ids, sizeof ids, "%llx", (unsigned long long)info->ids);
    jw_str(r->w, "version", info->digest);
    jw_str(r->w, "ids", ids);
    int rc = await_whole(r, c, err), fd = rc ? -1 : open_to_give(catalog_file(c));
    int why = errno;
    if (!rc && fd < 0)
        err_sys(err, why, "open %s", catalog_file(c));
    catalog_unref(c);
    if (fd < 0)
        return -1;
    r->fds[r->n_fds++] = fd;
    return 0;
}

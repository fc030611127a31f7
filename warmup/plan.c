/*
 * A catalog and the partitions of its samples.
 *
 * `sequence` asks for the bytes below a number. They are summed up in blocks of numbers, by one
 * walk over the version; inside a block the sizes are looked up when a cut falls into it.
 */
#include "plan-internal.h"

#include <string.h>

#include "buf.h"
#include "hash.h"
#include "mem.h"

/* --- keys: the hash of the path ----------------------------------------------------------------
 */

static int key_of(struct plan *p, const struct entry *e, uint64_t *ret, struct err *err)
{
    struct bytes *path = &p->path;
    if (e->parent != p->path_of) {
        bytes_clear(path);
        p->path_of = 0;
        if (e->parent != CATALOG_ROOT_ID && catalog_path(p->conf.catalog, e->parent, path, err))
            return -1;
        if (path->len)
            bytes_add_char(path, '/');
        p->path_of = e->parent;
        p->folder_len = path->len;
    }
    path->len = p->folder_len;
    bytes_add_str(path, e->name);
    *ret = hash64(path->data, path->len, 0);
    return 0;
}

/* --- bytes below a number ----------------------------------------------------------------------
 */

static bool add_to_block(void *arg, const struct entry *e)
{
    struct plan *p = arg;
    if (!e->folder && e->number != CATALOG_NO_INDEX)
        p->blocks[e->number / BLOCK + 1] += e->size;
    return true;
}

static int sum_blocks(struct plan *p, struct err *err)
{
    uint64_t n = catalog_info(p->conf.catalog)->numbered / BLOCK + 2;
    p->blocks = xcalloc(n, sizeof *p->blocks);
    p->block = UINT64_MAX;
    if (catalog_walk(p->conf.catalog, 0, add_to_block, p, err))
        return -1;
    for (uint64_t i = 1; i < n; i++)
        p->blocks[i] += p->blocks[i - 1];
    return 0;
}

/* Sizes of one block's samples. */
static int load_block(struct plan *p, uint64_t block, struct err *err)
{
    uint64_t ids[BLOCK], numbered = catalog_info(p->conf.catalog)->numbered;
    uint64_t n = numbered - block * BLOCK < BLOCK ? numbered - block * BLOCK : BLOCK;
    p->block = UINT64_MAX;
    if (catalog_numbers(p->conf.catalog, block * BLOCK, n, ids, err))
        return -1;
    for (uint64_t i = 0; i < n; i++) {
        struct entry e;
        if (catalog_get(p->conf.catalog, ids[i], &e, err))
            return -1;
        p->sizes[i] = e.size;
    }
    p->block = block;
    return 0;
}

static int bytes_below(void *arg, uint64_t number, uint64_t *ret, struct err *err)
{
    struct plan *p = arg;
    uint64_t block = number / BLOCK, sum = p->blocks[block];
    if (number % BLOCK && p->block != block && load_block(p, block, err))
        return -1;
    for (uint64_t i = 0; i < number % BLOCK; i++)
        sum += p->sizes[i];
    *ret = sum;
    return 0;
}

/* --- the plan ----------------------------------------------------------------------------------
 */

int plan_new(struct plan **ret, const struct plan_conf *conf, struct err *err)
{
    struct plan *p = xcalloc(1, sizeof *p);
    const struct catalog_info *info = conf->catalog ? catalog_info(conf->catalog) : NULL;
    p->conf = *conf;
    struct owner_conf c = {
        .strategy = conf->strategy,
        .partitions = conf->partitions,
        .may_be_empty = conf->may_be_empty,
        .sampler = conf->sampler,
        .samples = info ? info->samples : conf->count,
        .numbered = info ? info->numbered : conf->count,
    };
    int rc = 0;
    if (conf->weights.n && conf->weights.n != conf->partitions)
        rc = err_set(err, ERR_USAGE, "weights: %u of them for %u partitions", conf->weights.n,
                     conf->partitions);
    else if (conf->weights.n)
        c.weights = p->conf.weights.of;
    if (!rc && info && conf->strategy == OWNER_SEQUENCE && conf->partitions > 1) {
        rc = sum_blocks(p, err);
        c.bytes = bytes_below;
        c.arg = p;
    }
    if (!rc)
        rc = owners_new(&p->owners, &c, err);
    free(p->blocks);
    p->blocks = NULL;
    if (rc) {
        plan_free(p);
        return -1;
    }
    *ret = p;
    return 0;
}

void plan_free(struct plan *p)
{
    if (!p)
        return;
    owners_free(p->owners);
    bytes_release(&p->path);
    free(p);
}

bool plan_keeps(const struct plan_sample *s, uint32_t partition)
{
    bool keeps = s->owner == partition;
    for (size_t i = 0; i < s->n_repeats; i++)
        keeps |= s->repeats[i] == partition;
    return keeps;
}

static void find_keepers(const struct plan *p, struct plan_sample *s, uint64_t key)
{
    s->owner = owners_of(p->owners, s->number, key);
    s->n_repeats = owners_repeats(p->owners, s->number, s->repeats, PLAN_REPEATS);
}

struct each {
    struct plan *plan;
    plan_fn *fn;
    void *arg;
    struct err err;
};

static bool each_entry(void *arg, const struct entry *e)
{
    struct each *each = arg;
    uint64_t key;
    if (e->folder)
        return true;
    if (key_of(each->plan, e, &key, &each->err))
        return false;
    struct plan_sample s = {.id = e->id, .number = e->number, .size = e->size};
    find_keepers(each->plan, &s, key);
    return each->fn(each->arg, &s);
}

int plan_each(struct plan *p, plan_fn *fn, void *arg, struct err *err)
{
    if (p->conf.catalog) {
        struct each each = {.plan = p, .fn = fn, .arg = arg};
        if (catalog_walk(p->conf.catalog, 0, each_entry, &each, err))
            return -1;
        if (each.err.class && err)
            *err = each.err;
        return each.err.class ? -1 : 0;
    }
    for (uint64_t i = 0; i < p->conf.count; i++) {
        struct plan_sample s = {.number = i, .size = p->conf.sample_bytes};
        find_keepers(p, &s, owner_key(i));
        if (!fn(arg, &s))
            break;
    }
    return 0;
}

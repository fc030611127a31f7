/*
 * SPEC: "NAME[,key=value]…". One row a sampler says which keys it knows and what the library's
 * defaults are; one row a key says how its value is read.
 */
#include "order-internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum key {
    KEY_RANKS = 1 << 0,
    KEY_RANK = 1 << 1,
    KEY_RANKS_PER_NODE = 1 << 2,
    KEY_BATCH_SIZE = 1 << 3,
    KEY_EPOCH = 1 << 4,
    KEY_EPOCHS = 1 << 5,
    KEY_SEED = 1 << 6,
    KEY_SHUFFLE = 1 << 7,
    KEY_DROP_LAST = 1 << 8,
    KEY_WORKERS = 1 << 9,
    KEY_GENERATOR = 1 << 10,
    KEY_PERSISTENT = 1 << 11,
    KEY_ROTATE = 1 << 12,
    KEY_LIST = 1 << 13,
    KEY_ROOT = 1 << 14,
};
#define KEYS_ALL                                                                           \
    (KEY_RANKS | KEY_RANK | KEY_RANKS_PER_NODE | KEY_BATCH_SIZE | KEY_EPOCH | KEY_EPOCHS | \
     KEY_DROP_LAST | KEY_LIST | KEY_ROOT)

struct kind_row {
    const char *name;
    unsigned keys; /* besides those that all know */
    bool shuffle;  /* default */
    uint64_t seed_max;
};

/* Indexed by enum order_kind. The loaders are those of DataLoader(shuffle=True), as their names
 * say. */
static const struct kind_row kinds[] = {
    [ORDER_SEQUENCE] = {"sequence", 0, false, 0},
    [ORDER_PADDLE_RANDOM] = {"paddle-random", KEY_SEED, true, UINT32_MAX},
    [ORDER_PADDLE_LOADER] = {"paddle-loader", KEY_SEED | KEY_SHUFFLE | KEY_WORKERS | KEY_PERSISTENT,
                             true, UINT32_MAX},
    [ORDER_PADDLE_DISTRIBUTED] = {"paddle-distributed", KEY_SHUFFLE, false, 0},
    [ORDER_TORCH_RANDOM] = {"torch-random", KEY_SEED | KEY_GENERATOR, true, UINT64_MAX},
    [ORDER_TORCH_LOADER] = {"torch-loader",
                            KEY_SEED | KEY_SHUFFLE | KEY_WORKERS | KEY_GENERATOR | KEY_PERSISTENT,
                            true, UINT64_MAX},
    [ORDER_TORCH_DISTRIBUTED] = {"torch-distributed", KEY_SEED | KEY_SHUFFLE, true, UINT64_MAX},
    [ORDER_LOCAL] = {"local", KEY_SEED | KEY_SHUFFLE | KEY_ROTATE, true, UINT64_MAX},
};
#define N_KINDS (sizeof kinds / sizeof kinds[0])

enum value { VALUE_U32, VALUE_U64, VALUE_BOOL, VALUE_TEXT };

struct key_row {
    const char *name;
    enum key key;
    enum value value;
    uint64_t min, max;
    size_t offset;
};
#define AT(field) offsetof(struct order_spec, field)
static const struct key_row keys[] = {
    {"ranks", KEY_RANKS, VALUE_U32, 1, 1u << 20, AT(ranks)},
    {"rank", KEY_RANK, VALUE_U32, 0, (1u << 20) - 1, AT(rank)},
    {"ranks-per-node", KEY_RANKS_PER_NODE, VALUE_U32, 1, 1u << 20, AT(ranks_per_node)},
    {"batch-size", KEY_BATCH_SIZE, VALUE_U32, 1, 1u << 30, AT(batch_size)},
    {"epoch", KEY_EPOCH, VALUE_U64, 0, ORDER_MAX_EPOCH, AT(epoch)},
    {"epochs", KEY_EPOCHS, VALUE_U32, 1, 1u << 30, AT(epochs)},
    {"seed", KEY_SEED, VALUE_U64, 0, UINT64_MAX, AT(seed)},
    {"shuffle", KEY_SHUFFLE, VALUE_BOOL, 0, 0, AT(shuffle)},
    {"drop-last", KEY_DROP_LAST, VALUE_BOOL, 0, 0, AT(drop_last)},
    {"workers", KEY_WORKERS, VALUE_U32, 0, 1u << 16, AT(workers)},
    {"generator", KEY_GENERATOR, VALUE_BOOL, 0, 0, AT(generator)},
    {"persistent", KEY_PERSISTENT, VALUE_BOOL, 0, 0, AT(persistent)},
    {"rotate", KEY_ROTATE, VALUE_U32, 0, 1u << 30, AT(rotate)},
    {"list", KEY_LIST, VALUE_TEXT, 0, 0, AT(list)},
    {"root", KEY_ROOT, VALUE_TEXT, 0, 0, AT(root)},
};
#define N_KEYS (sizeof keys / sizeof keys[0])

const char *order_kind_name(enum order_kind k)
{
    return (size_t)k < N_KINDS ? kinds[k].name : "?";
}

/* "a b c": the names of the keys in `set`. */
static const char *key_names(unsigned set, char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < N_KEYS; i++)
        if (set & keys[i].key)
            len += (size_t)snprintf(out + len, size - len, "%s%s", len ? " " : "", keys[i].name);
    return out;
}

static int find_kind(const char *name, size_t len, enum order_kind *ret, struct err *err)
{
    if (len == 6 && memcmp(name, "random", 6) == 0) {
        *ret = ORDER_PADDLE_DISTRIBUTED;
        return 0;
    }
    for (size_t i = 0; i < N_KINDS; i++) {
        if (strlen(kinds[i].name) == len && memcmp(kinds[i].name, name, len) == 0) {
            *ret = (enum order_kind)i;
            return 0;
        }
    }
    return err_set(err, ERR_USAGE,
                   "sampler \"%.*s\": unknown name (known: sequence paddle-random paddle-loader "
                   "paddle-distributed torch-random torch-loader torch-distributed local random)",
                   (int)(len < 80 ? len : 80), name);
}

static int read_number(const struct key_row *k, const char *text, uint64_t max, uint64_t *ret,
                       struct err *err)
{
    char *end, least[24];
    bool is_signed = k->key == KEY_SEED && max == UINT64_MAX; /* torch takes -2^63..2^64-1 */
    bool is_number = isdigit((unsigned char)text[is_signed && text[0] == '-']);
    errno = 0;
    if (is_signed && text[0] == '-')
        *ret = (uint64_t)strtoll(text, &end, 10);
    else
        *ret = strtoull(text, &end, 10);
    is_number &= !*end;
    if (is_number && !errno && (text[0] == '-' || (*ret >= k->min && *ret <= max)))
        return 0;
    if (is_signed)
        snprintf(least, sizeof least, "%lld", (long long)INT64_MIN);
    else
        snprintf(least, sizeof least, "%llu", (unsigned long long)k->min);
    if (is_number)
        return err_set(err, ERR_USAGE, "sampler: %s=%s: want %s..%llu", k->name, text, least,
                       (unsigned long long)max);
    return err_set(err, ERR_USAGE, "sampler: %s=%s: want a whole number, not below %s", k->name,
                   text, least);
}

static int read_value(const struct key_row *k, const char *text, struct order_spec *s,
                      struct err *err)
{
    void *field = (char *)s + k->offset;
    uint64_t number = 0;
    if (k->value == VALUE_BOOL) {
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            return err_set(err, ERR_USAGE, "sampler: %s=%s: want true or false", k->name, text);
        *(bool *)field = text[0] == 't';
        return 0;
    }
    if (k->value == VALUE_TEXT) {
        if (!*text || strlen(text) >= sizeof s->list)
            return err_set(err, ERR_USAGE, "sampler: %s: want a path of 1 to %zu bytes", k->name,
                           sizeof s->list - 1);
        memcpy(field, text, strlen(text) + 1);
        return 0;
    }
    uint64_t max = k->key == KEY_SEED ? kinds[s->kind].seed_max : k->max;
    if (read_number(k, text, max, &number, err))
        return -1;
    if (k->value == VALUE_U32)
        *(uint32_t *)field = (uint32_t)number;
    else
        *(uint64_t *)field = number;
    return 0;
}

static int read_pair(char *pair, struct order_spec *s, unsigned *seen, struct err *err)
{
    unsigned known = KEYS_ALL | kinds[s->kind].keys;
    char names[256];
    char *equals = strchr(pair, '=');
    if (equals)
        *equals = '\0';
    const struct key_row *k = NULL;
    for (size_t i = 0; i < N_KEYS; i++)
        if (strcmp(keys[i].name, pair) == 0)
            k = &keys[i];
    if (!k || !(known & k->key))
        return err_set(err, ERR_USAGE, "sampler %s: unknown key \"%s\" (it knows: %s)",
                       kinds[s->kind].name, pair, key_names(known, names, sizeof names));
    if (!equals)
        return err_set(err, ERR_USAGE, "sampler %s: key \"%s\" has no value (write %s=…)",
                       kinds[s->kind].name, pair, pair);
    if (*seen & k->key)
        return err_set(err, ERR_USAGE, "sampler %s: key \"%s\" is given twice", kinds[s->kind].name,
                       pair);
    *seen |= k->key;
    return read_value(k, equals + 1, s, err);
}

static int check_together(const struct order_spec *s, struct err *err)
{
    if (s->rank >= s->ranks)
        return err_set(err, ERR_USAGE, "sampler %s: rank=%u: there are %u ranks, counted from 0",
                       kinds[s->kind].name, s->rank, s->ranks);
    if (s->ranks_per_node > s->ranks)
        return err_set(err, ERR_USAGE, "sampler %s: ranks-per-node=%u: there are only %u ranks",
                       kinds[s->kind].name, s->ranks_per_node, s->ranks);
    return 0;
}

static void defaults(struct order_spec *ret, enum order_kind kind)
{
    *ret = (struct order_spec){.kind = kind,
                               .ranks = 1,
                               .ranks_per_node = 1,
                               .batch_size = 1,
                               .epochs = 1,
                               .shuffle = kinds[kind].shuffle};
}

int order_spec_parse(struct order_spec *ret, const char *text, struct err *err)
{
    return order_spec_parse_among(ret, text, 1, err);
}

int order_spec_parse_among(struct order_spec *ret, const char *text, uint32_t ranks,
                           struct err *err)
{
    struct order_spec s;
    enum order_kind kind = ORDER_SEQUENCE;
    char copy[2048];
    if (strlen(text) >= sizeof copy)
        return err_set(err, ERR_USAGE, "sampler: SPEC of %zu bytes: at most %zu", strlen(text),
                       sizeof copy - 1);
    memcpy(copy, text, strlen(text) + 1);
    size_t name_len = strcspn(copy, ",");
    if (find_kind(copy, name_len, &kind, err))
        return -1;
    defaults(&s, kind);
    s.ranks = ranks;
    unsigned seen = 0;
    char *rest = copy[name_len] ? copy + name_len + 1 : NULL;
    while (rest) {
        char *pair = rest;
        char *comma = strchr(rest, ',');
        if (comma)
            *comma = '\0';
        rest = comma ? comma + 1 : NULL;
        if (read_pair(pair, &s, &seen, err))
            return -1;
    }
    s.has_rank = seen & KEY_RANK;
    s.has_ranks = seen & KEY_RANKS;
    s.has_ranks_per_node = seen & KEY_RANKS_PER_NODE;
    if (check_together(&s, err))
        return -1;
    *ret = s;
    return 0;
}

/* ",name=value", cut at `room`; returns its whole length. */
static size_t print_pair(const struct key_row *k, const struct order_spec *s, char *at, size_t room)
{
    const void *field = (const char *)s + k->offset;
    switch (k->value) {
    case VALUE_U32:
        return (size_t)snprintf(at, room, ",%s=%u", k->name, *(const uint32_t *)field);
    case VALUE_U64:
        return (size_t)snprintf(at, room, ",%s=%llu", k->name,
                                (unsigned long long)*(const uint64_t *)field);
    case VALUE_BOOL:
        return (size_t)snprintf(at, room, ",%s=%s", k->name,
                                *(const bool *)field ? "true" : "false");
    case VALUE_TEXT:
        if (*(const char *)field)
            return (size_t)snprintf(at, room, ",%s=%s", k->name, (const char *)field);
        break;
    }
    return 0;
}

static bool same_value(const struct key_row *k, const struct order_spec *a,
                       const struct order_spec *b)
{
    static const size_t sizes[] = {[VALUE_U32] = 4, [VALUE_U64] = 8, [VALUE_BOOL] = sizeof(bool)};
    const char *x = (const char *)a + k->offset, *y = (const char *)b + k->offset;
    return k->value == VALUE_TEXT ? strcmp(x, y) == 0 : memcmp(x, y, sizes[k->value]) == 0;
}

bool order_spec_same(const struct order_spec *a, const struct order_spec *b)
{
    bool same = a->kind == b->kind && a->has_rank == b->has_rank &&
                a->has_ranks_per_node == b->has_ranks_per_node;
    for (size_t i = 0; i < N_KEYS && same; i++)
        same = same_value(&keys[i], a, b);
    return same;
}

/* The keys in `set` that the sampler knows; not those that are as in `unless` (may be NULL). */
static void print_keys(const struct order_spec *s, unsigned set, const struct order_spec *unless,
                       char *out, size_t size)
{
    unsigned known = set & (KEYS_ALL | kinds[s->kind].keys);
    size_t len = (size_t)snprintf(out, size, "%s", kinds[s->kind].name);
    for (size_t i = 0; i < N_KEYS && len < size; i++)
        if ((known & keys[i].key) && !(unless && same_value(&keys[i], s, unless)))
            len += print_pair(&keys[i], s, out + len, size - len);
}

void order_spec_print(const struct order_spec *s, char *out, size_t size)
{
    /* What was not given would be taken for given by who reads this. */
    unsigned not_given = (s->has_rank ? 0u : (unsigned)KEY_RANK) |
                         (s->has_ranks_per_node ? 0u : (unsigned)KEY_RANKS_PER_NODE);
    print_keys(s, ~not_given, NULL, out, size);
}

void order_spec_print_brief(const struct order_spec *s, char *out, size_t size)
{
    struct order_spec unless;
    defaults(&unless, s->kind);
    print_keys(s, ~(unsigned)(KEY_RANK | KEY_RANKS | KEY_RANKS_PER_NODE), &unless, out, size);
}

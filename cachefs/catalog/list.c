/*
 * Numbers from a list file. A line may carry a label after its path, and a path may contain blanks,
 * so up to three readings of a line are kept: the whole line, up to the last blank, up to the
 * first. The first reading (in this order) that names a sample is meant.
 */
#include "build-internal.h"

#include "mem.h"

#define LIST_MEMORY (16u << 20)
#define READINGS    3u /* also: no reading names a sample */

struct list_reading {
    uint64_t index; /* of the line among those that count */
    uint64_t line;  /* in the file, from 1 */
    uint64_t rank;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static int add_reading(struct catalog_builder *b, const char *text, size_t len,
                       const struct list_reading *r, struct err *err)
{
    bytes_clear(&b->key);
    bytes_add(&b->key, text, len);
    path_to_key(b->key.data, b->key.len);
    return sorter_add(b->list, b->key.data, b->key.len, r, sizeof *r, err);
}

static int add_line(struct catalog_builder *b, const char *text, size_t len, uint64_t line,
                    struct err *err)
{
    size_t lens[READINGS] = {len, len, 0};
    while (lens[1] > 0 && !is_blank(text[lens[1] - 1]))
        lens[1]--;
    while (lens[1] > 0 && is_blank(text[lens[1] - 1]))
        lens[1]--;
    while (lens[2] < len && !is_blank(text[lens[2]]))
        lens[2]++;
    for (unsigned i = 0; i < READINGS; i++) {
        struct list_reading r = {b->list_lines, line, i};
        bool seen = lens[i] == 0;
        for (unsigned k = 0; k < i; k++)
            seen = seen || lens[k] == lens[i];
        if (!seen && add_reading(b, text, lens[i], &r, err) < 0)
            return -1;
    }
    b->list_lines++;
    return 0;
}

int catalog_builder_list(struct catalog_builder *b, const char *text, size_t len, const char *what,
                         struct err *err)
{
    uint64_t line = 0;
    if (b->list)
        return err_set(err, ERR_USAGE, "%s: a set has one list, and %s is it already", what,
                       b->list_what);
    b->list = sorter_new(b->dir, LIST_MEMORY);
    b->list_what = xstrdup(what);
    for (const char *p = text, *end = text + len; p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        const char *next = stop ? stop + 1 : end;
        stop = stop ? stop : end;
        line++;
        while (stop > p && (stop[-1] == '\r' || is_blank(stop[-1])))
            stop--;
        if (memchr(p, '\0', (size_t)(stop - p)))
            return err_set(err, ERR_USAGE, "%s line %llu: it contains a NUL byte", what,
                           (unsigned long long)line);
        while (stop - p >= 2 && p[0] == '.' && p[1] == '/')
            p += 2;
        if (stop > p && add_line(b, p, (size_t)(stop - p), line, err) < 0)
            return -1;
        p = next;
    }
    return 0;
}

/* --- joining with sorted keys ---------------------------------------------------------------- */

int list_join_begin(struct list_join *j, struct catalog_builder *b, struct err *err)
{
    *j = (struct list_join){.b = b};
    if (!b->list)
        return 0;
    if (sorter_rewind(b->list, err) < 0)
        return -1;
    j->more = sorter_next(b->list, &j->at, err);
    return j->more < 0 ? -1 : 0;
}

/* 1: `ret` is the next reading that is this key, 0: no more of them. */
static int next_of_key(struct list_join *j, const struct bytes *key, struct list_reading *ret,
                       struct err *err)
{
    while (j->more > 0) {
        size_t len = j->at.key_len < key->len ? j->at.key_len : key->len;
        int c = memcmp(j->at.key, key->data, len);
        if (c == 0)
            c = (j->at.key_len > key->len) - (j->at.key_len < key->len);
        if (c > 0)
            return 0;
        memcpy(ret, j->at.data, sizeof *ret);
        j->more = sorter_next(j->b->list, &j->at, err);
        if (c == 0)
            return j->more < 0 ? -1 : 1;
    }
    return j->more;
}

int list_join_number(struct list_join *j, const struct bytes *key, uint64_t *ret, struct err *err)
{
    struct list_reading r;
    int got;
    *ret = CATALOG_NO_INDEX;
    while ((got = next_of_key(j, key, &r, err)) > 0) {
        if (j->b->meant[r.index] != r.rank)
            continue;
        if (*ret == CATALOG_NO_INDEX)
            *ret = r.index;
        else if (j->twice == 0 || r.line < j->twice)
            j->twice = r.line;
    }
    return got;
}

int list_join_end(struct list_join *j, struct err *err)
{
    if (j->twice)
        return err_set(err, ERR_USAGE,
                       "%s line %llu: the sample was named before (remove the line)",
                       j->b->list_what, (unsigned long long)j->twice);
    return 0;
}

/* --- which reading is meant ------------------------------------------------------------------ */

static int ignore_folder(void *arg, const struct bytes *key, uint64_t folder, uint64_t parent,
                         struct err *err)
{
    (void)arg, (void)key, (void)folder, (void)parent, (void)err;
    return 0;
}

static int ignore_leave(void *arg, const struct bytes *key, uint64_t folder, int64_t marker_ns,
                        struct err *err)
{
    (void)arg, (void)key, (void)folder, (void)marker_ns, (void)err;
    return 0;
}

static int mark_sample(void *arg, const struct bytes *key, uint64_t folder,
                       const struct tree_row *row, struct err *err)
{
    struct list_join *j = arg;
    struct list_reading r;
    int got;
    (void)folder, (void)row;
    while ((got = next_of_key(j, key, &r, err)) > 0)
        if (r.rank < j->b->meant[r.index])
            j->b->meant[r.index] = (unsigned char)r.rank;
    return got;
}

static int names_nothing(struct catalog_builder *b, uint64_t index, struct err *err)
{
    struct sorted at = {0};
    struct list_reading r = {0};
    int got = sorter_rewind(b->list, err);
    while (got == 0 && (got = sorter_next(b->list, &at, err)) > 0) {
        memcpy(&r, at.data, sizeof r);
        got = r.index == index && r.rank == 0;
    }
    if (got < 0)
        return -1;
    cleanup_bytes struct bytes path = {0};
    bytes_add(&path, at.key, at.key_len);
    key_to_path(path.data, path.len);
    return err_set(
        err, ERR_USAGE,
        "%s line %llu: the set has no sample \"%.300s\" (paths are below the root of the "
        "set)",
        b->list_what, (unsigned long long)r.line, path.data);
}

int list_resolve(struct catalog_builder *b, struct err *err)
{
    const struct tree_ops ops = {
        .enter = ignore_folder, .sample = mark_sample, .leave = ignore_leave};
    struct list_join j;
    b->meant = xmalloc(b->list_lines + 1);
    memset(b->meant, READINGS, b->list_lines + 1);
    if (list_join_begin(&j, b, err) < 0 || tree_pass(b, &ops, &j, err) < 0)
        return -1;
    for (uint64_t i = 0; i < b->list_lines; i++)
        if (b->meant[i] == READINGS)
            return names_nothing(b, i, err);
    return 0;
}

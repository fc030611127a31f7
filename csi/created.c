/* The table of volumes and snapshots that were made here. */
#include "controller-internal.h"

#include <ctype.h>
#include <string.h>

#include "mem.h"

/* --- one name at a time ----------------------------------------------------------------------- */

enum rpc_code created_begin(struct controller *c, const char *name, struct err *err)
{
    ACQUIRE(&c->lock);
    for (size_t i = 0; i < c->n_begun; i++)
        if (strcmp(c->begun[i], name) == 0)
            return rpc_fail(err, RPC_ABORTED,
                            "%s: another call for it is under way (ask again when it has ended)",
                            name);
    c->begun = xrealloc(c->begun, (c->n_begun + 1) * sizeof *c->begun);
    c->begun[c->n_begun++] = xstrdup(name);
    return RPC_OK;
}

void created_end(struct controller *c, const char *name)
{
    ACQUIRE(&c->lock);
    for (size_t i = 0; i < c->n_begun; i++) {
        if (strcmp(c->begun[i], name) != 0)
            continue;
        free(c->begun[i]);
        c->begun[i] = c->begun[--c->n_begun];
        return;
    }
}

void created_id(const char *name, char ret[ID_MAX + 1])
{
    size_t n = strlen(name);
    bool plain = n && n < 64 && isalnum((unsigned char)name[0]);
    for (size_t i = 0; i < n && plain; i++)
        plain = isalnum((unsigned char)name[i]) || strchr("-_.", name[i]);
    char hash[STATE_NAME_BYTES];
    state_name(name, hash);
    snprintf(ret, ID_MAX + 1, "%s%s", plain ? "" : "sampan-", plain ? name : hash);
}

/* --- the table -------------------------------------------------------------------------------- */

void created_free(struct created *c)
{
    if (!c)
        return;
    free(c->id);
    free(c->name);
    free(c->options);
    free(c->prefix);
    free(c->source);
    free(c);
}

const struct created *created_find(struct controller *c, const char *id, bool snapshot)
{
    ACQUIRE(&c->lock);
    for (const struct created *v = c->all; v; v = v->next)
        if (v->is_snapshot == snapshot && strcmp(v->id, id) == 0)
            return v;
    return NULL;
}

static void insert(struct controller *c, struct created *new)
{
    struct created **at = &c->all;
    while (*at && strcmp((*at)->id, new->id) < 0)
        at = &(*at)->next;
    new->next = *at;
    *at = new;
}

static struct state_dir *folder_of(struct controller *c, const struct created *v)
{
    return v->is_snapshot ? &c->snapshots_dir : &c->volumes_dir;
}

int created_add(struct controller *c, struct created *new, struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    struct json_writer w;
    jw_init(&w, &text);
    jw_object(&w, NULL);
    jw_str(&w, "id", new->id);
    jw_str(&w, "name", new->name);
    jw_str(&w, "options", new->options);
    jw_int(&w, "capacity", new->capacity);
    jw_str(&w, "prefix", new->prefix);
    jw_str(&w, "token", new->token);
    jw_str(&w, "source", new->source);
    jw_int(&w, "made_at", new->made_at);
    jw_end(&w);
    if (state_write(folder_of(c, new), new->id, &text, err)) {
        created_free(new);
        return -1;
    }
    ACQUIRE(&c->lock);
    insert(c, new);
    return 0;
}

int created_remove(struct controller *c, const struct created *gone, struct err *err)
{
    if (state_remove(folder_of(c, gone), gone->id, err))
        return -1;
    ACQUIRE(&c->lock);
    for (struct created **at = &c->all; *at; at = &(*at)->next) {
        if (*at != gone)
            continue;
        struct created *v = *at;
        *at = v->next;
        created_free(v);
        break;
    }
    return 0;
}

static struct created *copy(struct arena *arena, const struct created *v)
{
    struct created *n = arena_alloc(arena, sizeof *n);
    *n = *v;
    n->id = arena_text(arena, v->id);
    n->name = arena_text(arena, v->name);
    n->options = arena_text(arena, v->options);
    n->prefix = arena_text(arena, v->prefix);
    n->source = arena_text(arena, v->source);
    return n;
}

const struct created **created_list(struct controller *c, bool snapshots, struct arena *arena,
                                    size_t *ret_n)
{
    ACQUIRE(&c->lock);
    size_t n = 0;
    for (const struct created *v = c->all; v; v = v->next)
        n += v->is_snapshot == snapshots;
    const struct created **list = arena_alloc(arena, (n + 1) * sizeof *list);
    *ret_n = 0;
    for (const struct created *v = c->all; v; v = v->next)
        if (v->is_snapshot == snapshots)
            list[(*ret_n)++] = copy(arena, v);
    return list;
}

/* A token names the last entry of the page before; that one may be gone meanwhile. */
enum rpc_code page_of(const struct created *const *list, size_t n, const char *token, int32_t max,
                      size_t *ret_begin, size_t *ret_end, struct err *err)
{
    static const char mark[] = "after:";
    if (max < 0)
        return rpc_fail(err, RPC_INVALID_ARGUMENT, "max_entries: %d: want 0 or more", max);
    if (*token && strncmp(token, mark, sizeof mark - 1) != 0)
        return rpc_fail(err, RPC_ABORTED,
                        "starting_token: %s: not one that was given here (list from the start)",
                        token);
    size_t begin = 0;
    while (*token && begin < n && strcmp(list[begin]->id, token + sizeof mark - 1) <= 0)
        begin++;
    *ret_begin = begin;
    *ret_end = max && n - begin > (size_t)max ? begin + (size_t)max : n;
    return RPC_OK;
}

/* --- loading ---------------------------------------------------------------------------------- */

static int load(struct controller *c, const struct json *r, bool snapshot)
{
    const char *id, *name, *options, *prefix, *token, *source;
    int64_t capacity, made_at;
    if (json_str(r, "id", &id, NULL) || json_str(r, "name", &name, NULL) ||
        json_str(r, "options", &options, NULL) || json_str(r, "prefix", &prefix, NULL) ||
        json_str(r, "token", &token, NULL) || json_str(r, "source", &source, NULL) ||
        json_int(r, "capacity", 0, INT64_MAX, &capacity, NULL) ||
        json_int(r, "made_at", 0, INT64_MAX, &made_at, NULL))
        return 0; /* not one that this version understands: left alone */
    struct created *v = xcalloc(1, sizeof *v);
    v->id = xstrdup(id);
    v->name = xstrdup(name);
    v->options = xstrdup(options);
    v->prefix = xstrdup(prefix);
    v->source = xstrdup(source);
    snprintf(v->token, sizeof v->token, "%s", token);
    v->capacity = capacity;
    v->made_at = made_at;
    v->is_snapshot = snapshot;
    insert(c, v);
    return 0;
}

static int load_volume(void *arg, const struct json *record, struct err *err)
{
    (void)err;
    return load(arg, record, false);
}

static int load_snapshot(void *arg, const struct json *record, struct err *err)
{
    (void)err;
    return load(arg, record, true);
}

int created_load(struct controller *c, struct err *err)
{
    if (state_walk(&c->volumes_dir, load_volume, c, NULL, err))
        return -1;
    return state_walk(&c->snapshots_dir, load_snapshot, c, NULL, err);
}

void created_free_all(struct controller *c)
{
    while (c->all) {
        struct created *v = c->all;
        c->all = v->next;
        created_free(v);
    }
    for (size_t i = 0; i < c->n_begun; i++)
        free(c->begun[i]);
    free(c->begun);
}

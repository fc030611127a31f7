/* The table of volumes and snapshots that were made here. */
#include "controller-internal.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "hash.h"
#include "mem.h"

/* --- one call at a time ----------------------------------------------------------------------- */

enum rpc_code created_begin(struct created_scope *scope, enum created_kind kind, const char *id,
                            struct err *err)
{
    static const char *const words[] = {"volume", "snapshot", "version"};
    struct controller *c = scope->controller;
    cleanup_free char *key = xasprintf("%s %s", words[kind], id);
    if ((kind == CREATED_VOLUME && state_known(&c->volumes_dir, id, err)) ||
        (kind == CREATED_SNAPSHOT && state_known(&c->snapshots_dir, id, err)))
        return rpc_code_of(err);
    ACQUIRE(&c->lock);
    for (size_t i = 0; i < c->n_begun; i++)
        if (strcmp(c->begun[i], key) == 0)
            return rpc_fail(err, RPC_ABORTED,
                            "%s: another call for it is under way (ask again when it has ended)",
                            key);
    c->begun = xrealloc(c->begun, (c->n_begun + 1) * sizeof *c->begun);
    c->begun[c->n_begun++] = scope->key = take_ptr(&key);
    return RPC_OK;
}

void created_scope_end(struct created_scope *s)
{
    if (!s->key)
        return;
    struct controller *c = s->controller;
    ACQUIRE(&c->lock);
    for (size_t i = 0; i < c->n_begun; i++)
        if (c->begun[i] == s->key)
            c->begun[i--] = c->begun[--c->n_begun];
    free(take_ptr(&s->key));
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

static void created_free(struct created *c)
{
    free(c->id);
    free(c->name);
    free(c->options);
    free(c->prefix);
    free(c->catalogs);
    free(c->source);
    free(c);
}

static struct created *copy(struct arena *arena, const struct created *v)
{
    struct created *n = arena_alloc(arena, sizeof *n);
    *n = *v;
    n->id = arena_text(arena, v->id);
    n->name = arena_text(arena, v->name);
    n->options = arena_text(arena, v->options);
    n->prefix = arena_text(arena, v->prefix);
    n->catalogs = arena_text(arena, v->catalogs);
    n->source = arena_text(arena, v->source);
    return n;
}

static struct created *keep(const struct created *v)
{
    struct created *n = xcalloc(1, sizeof *n);
    *n = *v;
    n->id = xstrdup(v->id);
    n->name = xstrdup(v->name);
    n->options = xstrdup(v->options);
    n->prefix = xstrdup(v->prefix);
    n->catalogs = xstrdup(v->catalogs);
    n->source = xstrdup(v->source);
    return n;
}

const struct created *created_find(struct controller *c, const char *id, bool snapshot,
                                   struct arena *arena)
{
    ACQUIRE(&c->lock);
    for (const struct created *v = c->all; v; v = v->next)
        if (v->is_snapshot == snapshot && strcmp(v->id, id) == 0)
            return copy(arena, v);
    return NULL;
}

/* In the order of ids. */
static void insert(struct controller *c, const struct created *v)
{
    struct created **at = &c->all, *new = keep(v);
    while (*at && strcmp((*at)->id, new->id) < 0)
        at = &(*at)->next;
    new->next = *at;
    *at = new;
}

static void take_out(struct controller *c, const char *id, bool snapshot)
{
    for (struct created **at = &c->all; *at; at = &(*at)->next) {
        struct created *v = *at;
        if (v->is_snapshot != snapshot || strcmp(v->id, id) != 0)
            continue;
        *at = v->next;
        created_free(v);
        return;
    }
}

static struct state_dir *folder_of(struct controller *c, const struct created *v)
{
    return v->is_snapshot ? &c->snapshots_dir : &c->volumes_dir;
}

int created_put(struct controller *c, const struct created *v, struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    struct json_writer w;
    state_begin(&w, &text, v->id);
    jw_str(&w, "name", v->name);
    jw_str(&w, "options", v->options);
    jw_int(&w, "capacity", v->capacity);
    jw_str(&w, "prefix", v->prefix);
    jw_str(&w, "catalogs", v->catalogs);
    jw_str(&w, "token", v->token);
    jw_str(&w, "source", v->source);
    jw_int(&w, "made_at", v->made_at);
    jw_bool(&w, "done", v->done);
    jw_end(&w);
    if (state_write(folder_of(c, v), v->id, &text, err))
        return -1;
    ACQUIRE(&c->lock);
    take_out(c, v->id, v->is_snapshot);
    insert(c, v);
    return 0;
}

int created_remove(struct controller *c, const struct created *gone, struct err *err)
{
    if (state_remove(folder_of(c, gone), gone->id, err))
        return -1;
    ACQUIRE(&c->lock);
    take_out(c, gone->id, gone->is_snapshot);
    return 0;
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
        if (v->is_snapshot == snapshots && v->done)
            list[(*ret_n)++] = copy(arena, v);
    return list;
}

static bool is_other(const struct created *v, const struct created *but)
{
    return v->is_snapshot != but->is_snapshot || strcmp(v->id, but->id) != 0;
}

bool created_uses_version(struct controller *c, const char *version, const struct created *but)
{
    ACQUIRE(&c->lock);
    for (const struct created *v = c->all; v; v = v->next)
        if (is_other(v, but) && strstr(v->options, version))
            return true;
    return false;
}

bool created_uses_catalogs(struct controller *c, const char *catalogs, const struct created *but)
{
    ACQUIRE(&c->lock);
    for (const struct created *v = c->all; v; v = v->next)
        if (is_other(v, but) && strcmp(v->catalogs, catalogs) == 0)
            return true;
    return false;
}

int created_token(char ret[TOKEN_BYTES], struct err *err)
{
    unsigned char random[(TOKEN_BYTES - 1) / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return err_set(err, ERR_FAILED, "the kernel gives no random bytes");
    hex_encode(ret, random, sizeof random);
    return 0;
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

static char *text_of(const char *text)
{
    return (char *)(uintptr_t)text;
}

static int load(struct controller *c, const struct json *r, bool snapshot)
{
    const char *id, *name, *options, *prefix, *catalogs, *token, *source;
    struct created v = {.is_snapshot = snapshot};
    if (json_str(r, "id", &id, NULL) || json_str(r, "name", &name, NULL) ||
        json_str(r, "options", &options, NULL) || json_str(r, "prefix", &prefix, NULL) ||
        json_str(r, "token", &token, NULL) || json_str(r, "source", &source, NULL) ||
        json_int(r, "capacity", 0, INT64_MAX, &v.capacity, NULL) ||
        json_int(r, "made_at", 0, INT64_MAX, &v.made_at, NULL) ||
        /* Versions before knew only what was done. */
        json_bool_or(r, "done", true, &v.done, NULL) ||
        json_str_or(r, "catalogs", "", &catalogs, NULL) || strlen(token) >= sizeof v.token)
        return 1;
    v.id = text_of(id);
    v.name = text_of(name);
    v.options = text_of(options);
    v.prefix = text_of(prefix);
    v.catalogs = text_of(catalogs);
    v.source = text_of(source);
    snprintf(v.token, sizeof v.token, "%s", token);
    insert(c, &v);
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
    if (state_walk(&c->volumes_dir, load_volume, c, c->conf.log, err))
        return -1;
    return state_walk(&c->snapshots_dir, load_snapshot, c, c->conf.log, err);
}

void created_free_all(struct controller *c)
{
    while (c->all) {
        struct created *v = c->all;
        c->all = v->next;
        created_free(v);
    }
    free(c->begun);
}

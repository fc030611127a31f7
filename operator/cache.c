/*
 * A hash table a kind: of entries by name, and of labels "key=value" (and marks, which look like
 * labels) to the entries that have them.
 * An entry is in the table while its object is known; `hidden` while it was deleted by us and the
 * watch has not said so yet; `foreign_until` is set for objects that are none of ours.
 */
#include "cache.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "hash.h"
#include "mem.h"
#include "object.h"
#include "sync.h"

#define FOREIGN_NS (60 * NS_PER_S)
#define BUCKETS    1024 /* of each table: thousands of objects at most */

struct entry {
    struct entry *next; /* in its bucket */
    struct object *object;
    bool hidden, listed;
    uint64_t foreign_until; /* 0: ours */
};

/* The entries that have one label. */
struct label {
    struct label *next;
    char *text; /* "key=value" */
    struct entry **entries;
    size_t n, room;
};

struct table {
    struct entry *entries[BUCKETS];
    struct label *labels[BUCKETS];
    size_t n;
    bool synced, by_name; /* by_name: MARK_NAME is indexed */
    char *version;        /* all changes up to it are known */
};

struct cache {
    struct lock lock;
    struct table *tables[KIND_N]; /* made when first used */
    cache_listener *listener;
    void *arg;
};

/* A change to tell of when the lock is dropped. */
struct change {
    struct object *before, *after;
};

/* --- objects ---------------------------------------------------------------------------------- */

static void strip(enum kind kind, const struct json *root)
{
    struct json meta = json_get(root, "metadata"), status = json_get(root, "status");
    json_drop(&meta, "managedFields");
    if (kind == KIND_NODE)
        json_drop(&status, "images");
}

static char *key_text(const char *ns, const char *name)
{
    return ns && *ns ? xasprintf("%s/%s", ns, name) : xstrdup(name ? name : "");
}

struct object *object_new(enum kind kind, struct json_doc *doc)
{
    struct object *o = xcalloc(1, sizeof *o);
    atomic_init(&o->refs, 1);
    o->doc = doc;
    o->root = json_root(doc);
    strip(kind, &o->root);
    o->key = key_text(object_namespace(&o->root), object_name(&o->root));
    return o;
}

static struct object *object_ref(struct object *o)
{
    atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
    return o;
}

void object_unref(struct object *o)
{
    if (!o || atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) != 1)
        return;
    json_doc_free(o->doc);
    free(o->key);
    free(o);
}

bool version_newer(const char *a, const char *b)
{
    size_t n = a ? strlen(a) : 0, m = b ? strlen(b) : 0;
    return n != m ? n > m : n && strcmp(a, b) > 0;
}

/* --- labels ----------------------------------------------------------------------------------- */

static size_t bucket_of(const char *text)
{
    return hash64(text, strlen(text), 0) % BUCKETS;
}

static struct label **find_label(struct table *t, const char *text)
{
    struct label **at = &t->labels[bucket_of(text)];
    while (*at && strcmp((*at)->text, text) != 0)
        at = &(*at)->next;
    return at;
}

static void label_add(struct table *t, const char *text, struct entry *e)
{
    struct label **at = find_label(t, text);
    if (!*at) {
        *at = xcalloc(1, sizeof **at);
        (*at)->text = xstrdup(text);
    }
    struct label *l = *at;
    if (l->n == l->room) {
        l->room = l->room ? 2 * l->room : 4;
        l->entries = xrealloc(l->entries, l->room * sizeof(struct entry *));
    }
    l->entries[l->n++] = e;
}

static void label_remove(struct table *t, const char *text, const struct entry *e)
{
    struct label **at = find_label(t, text), *l = *at;
    for (size_t i = 0; l && i < l->n; i++) {
        if (l->entries[i] != e)
            continue;
        l->entries[i] = l->entries[--l->n];
        break;
    }
    if (!l || l->n)
        return;
    *at = l->next;
    free(l->entries);
    free(l->text);
    free(l);
}

/* The label that all of our objects have is no index, nor are the names of most kinds: a list by
 * them goes through all. */
static bool is_indexed(const struct table *t, const char *key)
{
    return strcmp(key, MARK_NAME) == 0 ? t->by_name : strcmp(key, MANAGED_KEY) != 0;
}

/* An entry whose labels and marks come or go. */
struct labelling {
    struct table *table;
    struct entry *entry;
    bool add;
};

static void one_label(const struct labelling *l, const char *key, const char *value)
{
    if (!is_indexed(l->table, key))
        return;
    cleanup_free char *text = xasprintf("%s=%s", key, value);
    if (l->add)
        label_add(l->table, text, l->entry);
    else
        label_remove(l->table, text, l->entry);
}

static void one_use(void *arg, const char *name)
{
    one_label(arg, MARK_USES, name);
}

static void each_label(struct table *t, struct entry *e, bool add)
{
    struct labelling l = {t, e, add};
    const char *name = object_name(&e->object->root);
    struct json meta = json_get(&e->object->root, "metadata"), labels = json_get(&meta, "labels");
    for (size_t i = 0, n = json_count(&labels); i < n; i++) {
        struct json pair = json_member(&labels, i);
        const char *value;
        if (json_as_str(&pair, &value, NULL) == 0)
            one_label(&l, pair.key, value);
    }
    if (name)
        one_label(&l, MARK_NAME, name);
    object_uses(&e->object->root, one_use, &l);
}

/* --- a table: the lock is held for all below ------------------------------------------------- */

static struct table *table_of(struct cache *c, enum kind kind)
{
    if (!c->tables[kind]) {
        c->tables[kind] = xcalloc(1, sizeof *c->tables[kind]);
        c->tables[kind]->by_name = kind == KIND_SAMPLESET; /* references without a namespace */
    }
    return c->tables[kind];
}

static struct entry **find(struct table *t, const char *key)
{
    struct entry **at = &t->entries[bucket_of(key)];
    while (*at && strcmp((*at)->object->key, key) != 0)
        at = &(*at)->next;
    return at;
}

/* Takes the entry out; its object is the caller's. */
static struct object *take_out(struct table *t, struct entry **at)
{
    struct entry *e = *at;
    struct object *o = e->object;
    each_label(t, e, false);
    *at = e->next;
    free(e);
    t->n--;
    return o;
}

static void hold_version(struct table *t, const char *version)
{
    if (!version_newer(version, t->version))
        return;
    free(t->version);
    t->version = xstrdup(version);
}

static bool same_uid(const struct json *a, const struct json *b)
{
    const char *x = object_uid(a), *y = object_uid(b);
    return x && y && strcmp(x, y) == 0;
}

/* Puts `o` in, where it is newer than what is there; takes the reference. */
static struct change put(struct table *t, struct object *o, uint64_t foreign_until)
{
    struct change change = {0};
    struct entry **at = find(t, o->key), *e = *at;
    if (!e) {
        e = *at = xcalloc(1, sizeof *e);
        e->object = o;
        e->foreign_until = foreign_until;
        each_label(t, e, true);
        t->n++;
        change.after = object_ref(o);
        return change;
    }
    bool stays_hidden = e->hidden && same_uid(&e->object->root, &o->root);
    if (!version_newer(object_version(&o->root), object_version(&e->object->root))) {
        if (e->foreign_until)
            e->foreign_until = foreign_until;
        object_unref(o);
        return change;
    }
    each_label(t, e, false);
    if (e->hidden)
        object_unref(e->object);
    else
        change.before = e->object;
    e->object = o;
    e->hidden = stays_hidden;
    e->foreign_until = foreign_until;
    each_label(t, e, true);
    if (!e->hidden)
        change.after = object_ref(o);
    return change;
}

static bool is_visible(const struct entry *e)
{
    return !e->hidden && (!e->foreign_until || clock_mono_ns() < e->foreign_until);
}

/* --- for everybody ---------------------------------------------------------------------------- */

struct cache *cache_new(cache_listener *listener, void *arg)
{
    struct cache *c = xcalloc(1, sizeof *c);
    lock_init(&c->lock, RANK_OBJECTS, "objects");
    c->listener = listener;
    c->arg = arg;
    return c;
}

static void table_free(struct table *t)
{
    for (size_t b = 0; t && b < BUCKETS; b++)
        while (t->entries[b])
            object_unref(take_out(t, &t->entries[b]));
    if (t)
        free(t->version);
    free(t);
}

void cache_free(struct cache *c)
{
    if (!c)
        return;
    for (int k = 0; k < KIND_N; k++)
        table_free(c->tables[k]);
    lock_destroy(&c->lock);
    free(c);
}

struct object *cache_get(struct cache *c, enum kind kind, const char *ns, const char *name)
{
    cleanup_free char *key = key_text(ns, name);
    ACQUIRE(&c->lock);
    struct entry *e = *find(table_of(c, kind), key);
    return e && is_visible(e) ? object_ref(e->object) : NULL;
}

static void list_entry(const struct entry *e, const char *ns, const char *label, const char *value,
                       void (*add)(void *arg, struct object *o), void *arg)
{
    if (is_visible(e) && !e->foreign_until && object_matches(&e->object->root, ns, label, value))
        add(arg, object_ref(e->object));
}

void cache_list(struct cache *c, enum kind kind, const char *ns, const char *label,
                const char *value, void (*add)(void *arg, struct object *o), void *arg)
{
    ACQUIRE(&c->lock);
    struct table *t = table_of(c, kind);
    if (label && value && is_indexed(t, label)) {
        cleanup_free char *text = xasprintf("%s=%s", label, value);
        const struct label *l = *find_label(t, text);
        for (size_t i = 0; l && i < l->n; i++)
            list_entry(l->entries[i], ns, label, value, add, arg);
        return;
    }
    for (size_t b = 0; b < BUCKETS; b++)
        for (const struct entry *e = t->entries[b]; e; e = e->next)
            list_entry(e, ns, label, value, add, arg);
}

static void tell(struct cache *c, enum kind kind, struct change change)
{
    if (change.before || change.after)
        c->listener(c->arg, kind, change.before ? &change.before->root : NULL,
                    change.after ? &change.after->root : NULL);
    object_unref(change.before);
    object_unref(change.after);
}

/* --- news ------------------------------------------------------------------------------------- */

/* Entries that a list lacks go, unless they are newer than it. */
static size_t sweep(struct table *t, const char *version, struct change *changes)
{
    size_t n = 0;
    for (size_t b = 0; b < BUCKETS; b++) {
        struct entry **at = &t->entries[b];
        while (*at) {
            struct entry *e = *at;
            bool newer = *version && version_newer(object_version(&e->object->root), version);
            if (e->listed || newer || (e->foreign_until && is_visible(e))) {
                e->listed = false;
                at = &e->next;
                continue;
            }
            bool hidden = e->hidden;
            struct object *o = take_out(t, at);
            if (hidden)
                object_unref(o);
            else
                changes[n++].before = o;
        }
    }
    return n;
}

void cache_replace(struct cache *c, enum kind kind, struct object **objects, size_t n,
                   const char *version)
{
    struct change *changes = NULL;
    size_t n_changes = 0;
    {
        ACQUIRE(&c->lock);
        struct table *t = table_of(c, kind);
        changes = xcalloc(n + t->n + 1, sizeof *changes);
        for (size_t i = 0; i < n; i++) {
            cleanup_free char *key = xstrdup(objects[i]->key);
            changes[n_changes++] = put(t, objects[i], 0);
            struct entry *e = *find(t, key);
            if (e)
                e->listed = true;
        }
        n_changes += sweep(t, version, changes + n_changes);
        hold_version(t, version);
        t->synced = true;
    }
    for (size_t i = 0; i < n_changes; i++)
        tell(c, kind, changes[i]);
    free(changes);
}

static struct change forget(struct table *t, const char *key, const struct json *is)
{
    struct change change = {0};
    struct entry **at = find(t, key);
    if (!*at || (is && !same_uid(&(*at)->object->root, is)))
        return change;
    bool hidden = (*at)->hidden;
    struct object *o = take_out(t, at);
    if (hidden)
        object_unref(o);
    else
        change.before = o;
    return change;
}

void cache_changed(struct cache *c, enum kind kind, struct object *o, bool deleted)
{
    struct change change;
    {
        ACQUIRE(&c->lock);
        struct table *t = table_of(c, kind);
        hold_version(t, object_version(&o->root));
        if (deleted) {
            change = forget(t, o->key, &o->root);
            object_unref(o);
        } else {
            change = put(t, o, 0);
        }
    }
    tell(c, kind, change);
}

void cache_bookmark(struct cache *c, enum kind kind, const char *version)
{
    ACQUIRE(&c->lock);
    hold_version(table_of(c, kind), version);
}

/* An object that the watch would have brought, had it not gone meanwhile, is passed over: all up to
 * the table's version is known. */
void cache_put(struct cache *c, enum kind kind, struct object *o)
{
    struct change change = {0};
    {
        ACQUIRE(&c->lock);
        struct table *t = table_of(c, kind);
        if (!t->synced ||
            (!*find(t, o->key) && !version_newer(object_version(&o->root), t->version)))
            object_unref(o);
        else
            change = put(t, o, 0);
    }
    tell(c, kind, change);
}

void cache_gone(struct cache *c, enum kind kind, const char *ns, const char *name, const char *uid)
{
    cleanup_free char *key = key_text(ns, name);
    struct change change = {0};
    {
        ACQUIRE(&c->lock);
        struct entry *e = *find(table_of(c, kind), key);
        const char *is = e ? object_uid(&e->object->root) : NULL;
        if (e && !e->hidden && (!uid || (is && strcmp(is, uid) == 0))) {
            e->hidden = true;
            change.before = object_ref(e->object);
        }
    }
    tell(c, kind, change);
}

void cache_foreign(struct cache *c, enum kind kind, struct object *o)
{
    struct change change;
    {
        ACQUIRE(&c->lock);
        change = put(table_of(c, kind), o, clock_mono_ns() + FOREIGN_NS);
    }
    object_unref(change.before); /* whoever met it decides again by itself */
    object_unref(change.after);
}

void cache_numbers(struct cache *c, struct cache_numbers *ret)
{
    ACQUIRE(&c->lock);
    for (int k = 0; k < KIND_N; k++)
        ret->objects[k] = c->tables[k] ? c->tables[k]->n : 0;
}

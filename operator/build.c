/* Pairs, and copies of a user's JSON. */
#include "build.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "object.h"
#include "parts.h"

/* --- pairs ------------------------------------------------------------------------------------ */

static struct pair *place(struct pairs *p, const char *key)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->items[i].key, key) == 0)
            return &p->items[i];
    p->items = xrealloc(p->items, (p->n + 1) * sizeof *p->items);
    p->items[p->n] = (struct pair){.key = xstrdup(key)};
    return &p->items[p->n++];
}

void pairs_add(struct pairs *p, const char *key, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *value = xvasprintf(fmt, ap);
    va_end(ap);
    struct pair *at = place(p, key);
    free(at->value);
    at->value = value;
    at->field = false;
}

void pairs_add_field(struct pairs *p, const char *key, const char *path)
{
    pairs_add(p, key, "%s", path);
    place(p, key)->field = true;
}

const char *pairs_get(const struct pairs *p, const char *key)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->items[i].key, key) == 0)
            return p->items[i].value;
    return NULL;
}

void pairs_release(struct pairs *p)
{
    for (size_t i = 0; i < p->n; i++) {
        free(p->items[i].key);
        free(p->items[i].value);
    }
    free(p->items);
    *p = (struct pairs){0};
}

void pairs_write(const struct pairs *p, struct json_writer *w, const char *key)
{
    jw_object(w, key);
    for (size_t i = 0; i < p->n; i++)
        jw_str(w, p->items[i].key, p->items[i].value);
    jw_end(w);
}

/* --- reading ---------------------------------------------------------------------------------- */

static struct json walk(const struct json *from, va_list ap)
{
    struct json at = *from;
    for (const char *key; at.node && (key = va_arg(ap, const char *));) {
        at = json_get(&at, key);
        at.parent = NULL; /* what it came from does not outlive this */
    }
    return at;
}

struct json build_at(const struct json *from, ...)
{
    va_list ap;
    va_start(ap, from);
    struct json at = walk(from, ap);
    va_end(ap);
    return at;
}

const char *build_text(const struct json *from, ...)
{
    const char *text = NULL;
    va_list ap;
    va_start(ap, from);
    struct json at = walk(from, ap);
    va_end(ap);
    return at.node && !json_as_str(&at, &text, NULL) ? text : NULL;
}

int64_t build_int(int64_t dflt, const struct json *from, ...)
{
    int64_t n;
    va_list ap;
    va_start(ap, from);
    struct json at = walk(from, ap);
    va_end(ap);
    return at.node && !json_as_int(&at, INT64_MIN, INT64_MAX, &n, NULL) ? n : dflt;
}

bool build_true(const struct json *from, ...)
{
    cleanup_bytes struct bytes text = {0};
    va_list ap;
    va_start(ap, from);
    struct json at = walk(from, ap);
    va_end(ap);
    if (!at.node)
        return false;
    json_text(&at, &text);
    return strcmp(text.data, "true") == 0;
}

/* --- copying ---------------------------------------------------------------------------------- */

void build_copy(struct json_writer *w, const char *key, const struct json *value)
{
    cleanup_bytes struct bytes text = {0};
    if (!value->node)
        return;
    json_text(value, &text);
    jw_raw(w, key, text.data);
}

static bool is_among(const char *key, const char *const *keys)
{
    for (; keys && *keys; keys++)
        if (strcmp(key, *keys) == 0)
            return true;
    return false;
}

void build_copy_members(struct json_writer *w, const struct json *from, const char *const *except)
{
    for (size_t i = 0; i < json_count(from); i++) {
        struct json member = json_member(from, i);
        if (!is_among(member.key, except))
            build_copy(w, member.key, &member);
    }
}

void build_copy_items(struct json_writer *w, const struct json *from)
{
    for (size_t i = 0; i < json_count(from); i++) {
        struct json item = json_at(from, i);
        build_copy(w, NULL, &item);
    }
}

void build_owner_keys(const struct json *changed, const char *kind,
                      void (*add)(void *arg, const char *key), void *arg)
{
    struct json owners = build_at(changed, "metadata", "ownerReferences", NULL);
    for (size_t i = 0; i < json_count(&owners); i++) {
        struct json o = json_at(&owners, i);
        const char *of = part_text(&o, "kind"), *name = part_text(&o, "name");
        if (!of || !name || strcmp(of, kind) != 0)
            continue;
        cleanup_free char *key = xasprintf("%s/%s", object_namespace(changed), name);
        add(arg, key);
    }
}

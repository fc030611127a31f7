/* The look-ups of a decision. */
#include <string.h>

#include "mem.h"
#include "object.h"
#include "view-internal.h"

/* Arrays that were handed out: they live as long as the view. */
struct handed {
    struct handed *next;
    size_t n, room;
    const struct json **items;
};

struct view {
    const struct view_source *source;
    void *arg;
    enum kind kind;
    const struct json *object;
    int64_t now;
    bool incomplete;
    struct handed *lists;
};

struct view *view_new(const struct view_source *source, void *arg, enum kind kind,
                      const struct json *object, int64_t now)
{
    struct view *v = xcalloc(1, sizeof *v);
    *v = (struct view){.source = source, .arg = arg, .kind = kind, .object = object, .now = now};
    return v;
}

void view_free(struct view *v)
{
    if (!v)
        return;
    while (v->lists) {
        struct handed *h = v->lists;
        v->lists = h->next;
        free(h->items);
        free(h);
    }
    if (v->source->free)
        v->source->free(v->arg);
    free(v);
}

enum kind view_kind(const struct view *v)
{
    return v->kind;
}

const struct json *view_object(const struct view *v)
{
    return v->object;
}

bool view_incomplete(const struct view *v)
{
    return v->incomplete;
}

int64_t view_now(const struct view *v)
{
    return v->now;
}

const struct json *view_get(struct view *v, enum kind kind, const char *ns, const char *name)
{
    const struct json *found = NULL;
    if (!v->source->get(v->arg, kind, ns, name, &found)) {
        v->incomplete = true;
        return NULL;
    }
    return found;
}

const struct view_answer *view_fetch(struct view *v, const char *url)
{
    const struct view_answer *found = NULL;
    if (!v->source->fetch(v->arg, url, &found)) {
        v->incomplete = true;
        return NULL;
    }
    return found;
}

static void add_object(void *to, const struct json *object)
{
    struct handed *h = to;
    if (h->n == h->room) {
        h->room = h->room ? 2 * h->room : 16;
        h->items = xrealloc(h->items, h->room * sizeof(struct json *));
    }
    h->items[h->n++] = object;
}

static int compare(const void *a, const void *b)
{
    return object_compare(*(const struct json *const *)a, *(const struct json *const *)b);
}

static bool is_sorted(const struct handed *h)
{
    for (size_t i = 1; i < h->n; i++)
        if (object_compare(h->items[i - 1], h->items[i]) > 0)
            return false;
    return true;
}

struct view_list view_list(struct view *v, enum kind kind, const char *ns, const char *key,
                           const char *value)
{
    struct handed *h = xcalloc(1, sizeof *h);
    h->next = v->lists;
    v->lists = h;
    v->source->list(v->arg, kind, ns, key, value, add_object, h);
    if (!is_sorted(h))
        qsort(h->items, h->n, sizeof(struct json *), compare);
    return (struct view_list){.items = h->items, .n = h->n};
}

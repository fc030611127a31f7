/* The list of actions: made, freed, written as text. */
#include "actions.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "mem.h"

static struct action *add(struct actions *a, enum action_type type)
{
    if (a->n == a->room) {
        a->room = a->room ? 2 * a->room : 8;
        a->items = xrealloc(a->items, a->room * sizeof *a->items);
    }
    struct action *new = &a->items[a->n++];
    *new = (struct action){.type = type, .kind = KIND_N};
    return new;
}

static char *copy(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

static struct action *add_of(struct actions *a, enum action_type type, enum kind kind,
                             const char *ns, const char *name)
{
    struct action *new = add(a, type);
    new->kind = kind;
    new->ns = copy(ns);
    new->name = xstrdup(name);
    return new;
}

struct action *act_create(struct actions *a, enum kind kind, const char *ns, const char *name)
{
    return add_of(a, ACTION_CREATE, kind, ns, name);
}

struct action *act_patch(struct actions *a, enum kind kind, const char *ns, const char *name,
                         const char *version)
{
    struct action *new = add_of(a, ACTION_PATCH, kind, ns, name);
    new->version = copy(version);
    return new;
}

struct action *act_status(struct actions *a, enum kind kind, const char *ns, const char *name,
                          const char *version)
{
    struct action *new = add_of(a, ACTION_STATUS, kind, ns, name);
    new->version = copy(version);
    return new;
}

struct action *act_delete(struct actions *a, enum kind kind, const char *ns, const char *name,
                          const char *uid)
{
    struct action *new = add_of(a, ACTION_DELETE, kind, ns, name);
    new->uid = copy(uid);
    return new;
}

void act_event(struct actions *a, bool warning, const char *reason, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = xvasprintf(fmt, ap);
    va_end(ap);
    struct action *new = add(a, ACTION_EVENT);
    new->warning = warning;
    new->reason = xstrdup(reason);
    new->message = text;
}

struct action *act_send(struct actions *a, const char *method, const char *url)
{
    struct action *new = add(a, ACTION_SEND);
    new->method = xstrdup(method);
    new->url = xstrdup(url);
    return new;
}

void act_again(struct actions *a, unsigned after_s)
{
    add(a, ACTION_AGAIN)->after_s = after_s;
}

void actions_move(struct actions *to, struct actions *from)
{
    for (size_t i = 0; i < from->n; i++)
        *add(to, from->items[i].type) = from->items[i];
    from->n = 0; /* what they hold is theirs now */
    actions_release(from);
}

void actions_release(struct actions *a)
{
    for (size_t i = 0; i < a->n; i++) {
        struct action *x = &a->items[i];
        char *texts[] = {x->ns,      x->name,   x->version, x->uid,   x->reason,
                         x->message, x->method, x->url,     x->header};
        for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++)
            free(texts[t]);
        bytes_release(&x->body);
    }
    free(a->items);
    *a = (struct actions){0};
}

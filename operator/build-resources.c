/* What the containers of a pod ask for, in thousandths, as Kubernetes adds it up. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "build-pod.h"
#include "mem.h"

static int64_t milli_of(const char *text)
{
    uint64_t unit = 1;
    size_t digits = strspn(text, "0123456789.");
    cleanup_free char *one = xasprintf("1%s", text + digits);
    if (strcmp(text + digits, "m") == 0)
        return (int64_t)strtod(text, NULL);
    if (api_quantity(one, &unit, NULL))
        return 0;
    double n = strtod(text, NULL) * (double)unit * 1000;
    return n < 9e18 ? (int64_t)n : INT64_MAX;
}

static int64_t milli(const struct json *value)
{
    const char *text;
    cleanup_bytes struct bytes number = {0};
    if (!json_as_str(value, &text, NULL))
        return milli_of(text);
    json_text(value, &number);
    return milli_of(number.data);
}

static struct build_amount *amount(struct build_sum *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->items[i].name, name) == 0)
            return &s->items[i];
    s->items = xrealloc(s->items, (s->n + 1) * sizeof *s->items);
    s->items[s->n] = (struct build_amount){.name = xstrdup(name)};
    return &s->items[s->n++];
}

/* A request that is not given is the limit. */
static void add_container(struct build_sum *s, const struct json *c, int64_t times)
{
    struct json requests = build_at(c, "resources", "requests", NULL),
                limits = build_at(c, "resources", "limits", NULL);
    for (size_t i = 0; i < json_count(&requests); i++) {
        struct json r = json_member(&requests, i);
        amount(s, r.key)->milli += times * milli(&r);
    }
    for (size_t i = 0; i < json_count(&limits); i++) {
        struct json l = json_member(&limits, i);
        if (!json_has(&requests, l.key))
            amount(s, l.key)->milli += times * milli(&l);
    }
}

void build_sum_add(struct build_sum *s, const struct json *template, int64_t times)
{
    struct json all = build_at(template, "spec", "containers", NULL);
    for (size_t i = 0; i < json_count(&all); i++) {
        struct json c = json_at(&all, i);
        add_container(s, &c, times);
    }
}

void build_sum_write(const struct build_sum *s, struct json_writer *w, const char *key)
{
    jw_object(w, key);
    for (size_t i = 0; i < s->n; i++) {
        char text[32];
        const struct build_amount *a = &s->items[i];
        if (a->milli % 1000)
            snprintf(text, sizeof text, "%" PRId64 "m", a->milli);
        else
            snprintf(text, sizeof text, "%" PRId64, a->milli / 1000);
        jw_str(w, a->name, text);
    }
    jw_end(w);
}

void build_sum_release(struct build_sum *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->items[i].name);
    free(s->items);
    *s = (struct build_sum){0};
}

static bool is_device(const char *resource)
{
    static const char *const words[] = {"gpu", "dcu", "npu", "xpu"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strchr(resource, '/') && strstr(resource, words[i]))
            return true;
    return false;
}

int64_t build_devices(const struct json *template)
{
    struct build_sum s = {0};
    int64_t n = 0;
    build_sum_add(&s, template, 1);
    for (size_t i = 0; i < s.n; i++)
        if (is_device(s.items[i].name))
            n += s.items[i].milli / 1000;
    build_sum_release(&s);
    return n;
}

bool build_fits(const struct json *template, const struct json *node, char **why)
{
    struct build_sum s = {0};
    struct json has = build_at(node, "status", "allocatable", NULL);
    *why = build_true(node, "spec", "unschedulable", NULL) ? xstrdup("it takes no new pods") : NULL;
    build_sum_add(&s, template, 1);
    for (size_t i = 0; i < s.n && !*why; i++) {
        struct json free_ = json_get(&has, s.items[i].name);
        if ((free_.node ? milli(&free_) : 0) < s.items[i].milli)
            *why = xasprintf("it has too little %s", s.items[i].name);
    }
    build_sum_release(&s);
    return !*why;
}

/* fault: some calls fail, deliver wrong bytes, or end the process. */
#include "layers-internal.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"

enum when { WHEN_EVERY, WHEN_FIRST, WHEN_AFTER, WHEN_UNIT, WHEN_ALWAYS };
enum harm { HARM_ERROR, HARM_SHORT, HARM_FLIP, HARM_ABORT };

struct fault {
    struct source source; /* first */
    enum layer_op op;
    enum when when;
    uint64_t n;
    enum harm harm;
    enum err_class class;
    _Atomic uint64_t calls;
};

/* A call whose answer is to be harmed on its way up. */
struct harmed {
    struct source_wait wait; /* first */
    struct source_wait *outer;
    struct fault *fault;
    struct piece piece;
};

static bool is_due(struct fault *f, uint64_t unit)
{
    uint64_t call = atomic_fetch_add(&f->calls, 1) + 1;
    switch (f->when) {
    case WHEN_EVERY:
        return call % f->n == 0;
    case WHEN_FIRST:
        return call <= f->n;
    case WHEN_AFTER:
        return call > f->n;
    case WHEN_UNIT:
        return unit == f->n;
    case WHEN_ALWAYS:
        return true;
    }
    return false;
}

static int fail(const struct fault *f, uint64_t unit, struct err *err)
{
    return err_set(err, f->class, "unit %llu: fault layer", (unsigned long long)unit);
}

/* Harms bytes where they lie: in the buffer that the layer above brought. */
static void harm_view(const struct fault *f, const struct piece *p, struct view *v)
{
    if (f->harm == HARM_SHORT)
        v->len /= 2;
    else if (v->len > 0 && p->into)
        p->into->data[v->len / 2] ^= 0x10;
}

static void harmed_done(struct source_wait *wait, struct view *view, const struct err *err)
{
    struct harmed *h = (struct harmed *)wait;
    if (!err && view)
        harm_view(h->fault, &h->piece, view);
    h->outer->done(h->outer, view, err);
    free(h);
}

static int fault_read(struct source *s, const struct piece *p, struct view *ret,
                      struct source_wait *wait, struct err *err)
{
    struct fault *f = (struct fault *)s;
    if (!(f->op & OP_READ) || !is_due(f, p->unit))
        return source_read(s->inner, p, ret, wait, err);
    if (f->harm == HARM_ABORT)
        abort();
    if (f->harm == HARM_ERROR)
        return fail(f, p->unit, err);
    struct harmed *h = xcalloc(1, sizeof *h);
    *h = (struct harmed){{harmed_done}, wait, f, *p};
    int rc = source_read(s->inner, p, ret, &h->wait, err);
    if (rc == SOURCE_PENDING)
        return rc;
    free(h);
    if (rc == 0)
        harm_view(f, p, ret);
    return rc;
}

static int fault_ahead(struct source *s, const struct piece *p, struct source_wait *wait,
                       struct err *err)
{
    struct fault *f = (struct fault *)s;
    if ((f->op & OP_AHEAD) && f->harm == HARM_ERROR && is_due(f, p->unit))
        return fail(f, p->unit, err);
    return source_ahead(s->inner, p, wait, err);
}

static void fault_drop(struct source *s, uint64_t unit)
{
    if (s->inner->ops->drop)
        s->inner->ops->drop(s->inner, unit);
}

static void fault_close(struct source *s)
{
    free(s);
}

#define FAULT_OPS                                                                  \
    .name = "fault", .read = fault_read, .drop = fault_drop, .close = fault_close, \
    .raise = layer_raise, .give_up = layer_give_up
static const struct source_ops ops = {FAULT_OPS, .ahead = fault_ahead};
static const struct source_ops ops_no_ahead = {FAULT_OPS};

static int parse_when(struct fault *f, const char **args, struct err *err)
{
    static const char *const names[] = {"every", "first", "after", "unit", "always"};
    char word[24] = "";
    layer_word(args, ':', word, sizeof word);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(word, names[i]) != 0)
            continue;
        f->when = (enum when)i;
        if (f->when == WHEN_ALWAYS)
            return 0;
        layer_word(args, ':', word, sizeof word);
        if (layer_number(word, &f->n, err))
            return -1;
        if (f->when == WHEN_EVERY && f->n == 0)
            return err_set(err, ERR_USAGE, "every:0 makes no sense");
        return 0;
    }
    return err_set(err, ERR_USAGE, "\"%s\": want every, first, after, unit or always", word);
}

static int parse_harm(struct fault *f, const char *word, struct err *err)
{
    if (strcmp(word, "short") == 0) {
        f->harm = HARM_SHORT;
        return 0;
    }
    if (strcmp(word, "flip") == 0) {
        f->harm = HARM_FLIP;
        return 0;
    }
    if (strcmp(word, "abort") == 0) {
        f->harm = HARM_ABORT;
        return 0;
    }
    for (int c = ERR_NOT_FOUND; c <= ERR_BUG; c++) {
        if (strcmp(word, err_class_name((enum err_class)c)) == 0) {
            f->class = (enum err_class)c;
            return 0;
        }
    }
    return err_set(err, ERR_USAGE, "\"%s\": want an error class, short, flip or abort", word);
}

int fault_new(struct source **ret, const char *args, struct source *inner, struct err *err)
{
    struct fault *f = xcalloc(1, sizeof *f);
    f->source.ops = inner->ops->ahead ? &ops : &ops_no_ahead;
    f->source.inner = inner;
    char word[24] = "";
    layer_word(&args, ':', word, sizeof word);
    if (layer_op_parse(word, &f->op, err) || parse_when(f, &args, err) ||
        parse_harm(f, args, err)) {
        free(f);
        return -1;
    }
    *ret = &f->source;
    return 0;
}

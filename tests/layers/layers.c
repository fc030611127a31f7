/* The spec of test layers: one function a layer, applied from the last to the first. */
#include "layers-internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "mem.h"

struct layer_row {
    const char *name;
    int (*make)(struct source **ret, const char *args, struct source *inner, struct err *err);
};

static const struct layer_row rows[] = {
    {"fault", fault_new},
    {"delay", delay_new},
    {"count", count_new},
};

bool layer_word(const char **text, char stop, char *out, size_t size)
{
    size_t len = strcspn(*text, (char[]){stop, '\0'});
    if (len >= size)
        return false;
    memcpy(out, *text, len);
    out[len] = '\0';
    *text += len;
    if (**text == stop)
        (*text)++;
    return true;
}

int layer_op_parse(const char *word, enum layer_op *ret, struct err *err)
{
    static const struct {
        const char *name;
        enum layer_op op;
    } ops[] = {{"read", OP_READ}, {"ahead", OP_AHEAD}, {"all", OP_ALL}};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        if (strcmp(word, ops[i].name) == 0) {
            *ret = ops[i].op;
            return 0;
        }
    }
    return err_set(err, ERR_USAGE, "\"%s\": want read, ahead or all", word);
}

int layer_number(const char *word, uint64_t *ret, struct err *err)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(word, &end, 10);
    if (word[0] < '0' || word[0] > '9' || *end || errno)
        return err_set(err, ERR_USAGE, "\"%s\": want a number", word);
    *ret = n;
    return 0;
}

void layer_raise(struct source *s, const struct piece *p)
{
    if (s->inner->ops->raise)
        s->inner->ops->raise(s->inner, p);
}

void layer_give_up(struct source *s)
{
    source_give_up(s->inner);
}

static int make_one(struct source **ret, const char *text, struct source *inner, struct err *err)
{
    const char *args = text;
    char name[16] = "";
    if (layer_word(&args, '=', name, sizeof name))
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
            if (strcmp(name, rows[i].name) == 0)
                return rows[i].make(ret, args, inner, err) ? err_wrap(err, "layer %s", text) : 0;
    return err_set(err, ERR_USAGE, "layer \"%s\": want fault=, delay= or count=", text);
}

/* Frees the layers above `inner` again. */
static void unwind(struct source *top, const struct source *inner)
{
    while (top != inner) {
        struct source *below = top->inner;
        top->ops->close(top);
        top = below;
    }
}

int layers_build(struct source **ret, const char *spec, struct source *inner, struct err *err)
{
    cleanup_free char *text = xstrdup(spec);
    struct source *top = inner;
    size_t len = strlen(text);
    while (len > 0) { /* from the back: the first one named is the topmost */
        char *from = memrchr(text, ';', len);
        char *word = from ? from + 1 : text;
        if (*word && make_one(&top, word, top, err)) {
            unwind(top, inner);
            return -1;
        }
        len = from ? (size_t)(from - text) : 0;
        text[len] = '\0';
    }
    *ret = top;
    return 0;
}

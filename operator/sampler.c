/* What is said and what follows, put together. */
#include "sampler.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "mem.h"
#include "order.h"

#define RANKS "ranks"
#define EACH  "ranks-per-node"

static size_t word_len(const char *at)
{
    return strcspn(at, ",");
}

/* The first word is a name: it has no '='. */
static bool has_name(const char *text)
{
    return text && *text && !memchr(text, '=', word_len(text));
}

/* The value of a key, and its length; NULL: it is not there. */
static const char *value_of(const char *text, const char *key, size_t key_len, size_t *ret_len)
{
    while (text && *text) {
        size_t len = word_len(text);
        if (len > key_len && text[key_len] == '=' && strncmp(text, key, key_len) == 0) {
            *ret_len = len - key_len - 1;
            return text + key_len + 1;
        }
        text += len + (text[len] == ',');
    }
    return NULL;
}

static bool same_value(const char *a, const char *b, const char *key, size_t key_len)
{
    size_t na = 0, nb = 0;
    const char *va = value_of(a, key, key_len, &na), *vb = value_of(b, key, key_len, &nb);
    return va && vb && na == nb && memcmp(va, vb, na) == 0;
}

static void add_missing(struct bytes *out, const char *key, const char *note)
{
    size_t len = 0;
    const char *value = value_of(note, key, strlen(key), &len);
    if (value && !value_of(out->data, key, strlen(key), &(size_t){0}))
        bytes_addf(out, ",%s=%.*s", key, (int)len, value);
}

char *sampler_complete(const char *given, const char *note)
{
    const char *base = has_name(given) ? given : has_name(note) ? note : NULL;
    struct bytes out = {0};
    if (!base)
        return NULL;
    bytes_add_str(&out, base);
    if (!value_of(base, RANKS, strlen(RANKS), &(size_t){0}) ||
        same_value(base, note, RANKS, strlen(RANKS))) {
        add_missing(&out, RANKS, note);
        add_missing(&out, EACH, note);
    }
    return bytes_take(&out);
}

char *sampler_note(const char *own, int64_t workers, int64_t devices)
{
    int64_t each = devices > 0 ? devices : 1;
    cleanup_free char *ranks =
        xasprintf(RANKS "=%" PRId64 "," EACH "=%" PRId64, workers * each, each);
    return has_name(own) ? sampler_complete(own, ranks) : xstrdup(ranks);
}

bool sampler_agrees(const char *have, const char *want)
{
    struct order_spec a, b;
    char full[2048];
    if (!have || !*have || order_spec_parse(&a, have, NULL) || order_spec_parse(&b, want, NULL) ||
        a.kind != b.kind)
        return false;
    order_spec_print(&b, full, sizeof full); /* as mounts write it */
    const char *at = want + word_len(want);
    while (*at == ',') {
        const char *word = ++at;
        size_t len = word_len(word), key = strcspn(word, "=");
        at += len;
        bool moves = (key == 5 && strncmp(word, "epoch", 5) == 0) ||
                     (key == 4 && strncmp(word, "rank", 4) == 0);
        if (!moves && !same_value(have, full, word, key < len ? key : len))
            return false;
    }
    return true;
}

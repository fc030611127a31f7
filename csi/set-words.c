/* What `sampan mount` is told of a set: kept in its record, each word with its NUL. */
#define LOG_MODULE "node"
#include <stdlib.h>
#include <string.h>

#include "catalogs.h"
#include "mem.h"
#include "node-internal.h"

/* --- looked at -------------------------------------------------------------------------------- */

/* The word behind the next option of that name, from `at` on, which is moved; NULL: there is none.
 */
static const char *next_of(const struct bytes *words, const char *name, size_t *at)
{
    while (*at < words->len) {
        const char *word = words->data + *at;
        *at += strlen(word) + 1;
        if (strcmp(word, name) == 0)
            return *at < words->len ? words->data + *at : NULL;
    }
    return NULL;
}

static const char *option_of(const struct set *s, const char *name)
{
    size_t at = 0;
    return next_of(&s->words, name, &at);
}

static bool is_written(const struct set *s)
{
    return s->words.len && memmem(s->words.data, s->words.len, "--writable", sizeof "--writable");
}

const char *set_named_file(const struct set *s)
{
    const char *word = option_of(s, "--catalog");
    return word && catalog_word_is_file(word) ? word : NULL;
}

int64_t set_group(const struct set *s)
{
    const char *word = is_written(s) ? option_of(s, "--gid") : NULL;
    return word ? strtoll(word, NULL, 10) : -1;
}

/* --- chosen ----------------------------------------------------------------------------------- */

static void add_word(struct bytes *out, const char *word)
{
    bytes_add(out, word, strlen(word) + 1);
}

/* Of two tiers, TIER:DIR=SIZE. */
static bool same_folder(const char *a, const char *b)
{
    const char *x = strchr(a, ':'), *y = strchr(b, ':');
    if (!x || !y)
        return false;
    const char *x_end = strrchr(x, '='), *y_end = strrchr(y, '=');
    return x_end && y_end && x_end - x == y_end - y && memcmp(x, y, (size_t)(x_end - x)) == 0;
}

static bool share_folder(const struct bytes *a, const struct bytes *b)
{
    size_t i = 0, k;
    for (const char *x, *y; (x = next_of(a, "--cache", &i));)
        for (k = 0; (y = next_of(b, "--cache", &k));)
            if (same_folder(x, y))
                return true;
    return false;
}

/* Is the same set mounted for others, with other keys or another profile, and has its cache in that
 * folder? `folder` NULL: in one that these words name. What is written lies elsewhere. */
static bool others_have(struct node *n, const char *key, const struct attributes *a,
                        const struct bytes *words, const char *folder)
{
    const char *endpoint = a->value[ATTR_ENDPOINT] ? a->value[ATTR_ENDPOINT] : "";
    ACQUIRE(&n->lock);
    for (const struct set *s = n->sets; s; s = s->next) {
        const char *at = option_of(s, "--endpoint"), *base = option_of(s, "--cache-dir");
        if (strcmp(s->uri, a->value[ATTR_URI]) != 0 || strcmp(s->key, key) == 0 ||
            strcmp(at ? at : "", endpoint) != 0 || is_written(s))
            continue;
        if (!folder && share_folder(&s->words, words))
            return true;
        if (folder && !option_of(s, "--cache") &&
            strcmp(base ? base : node_cache_dir(n), folder) == 0)
            return true;
    }
    return false;
}

/* Where a set that names no cache has it: in the driver's folder. A pinned version has one of its
 * own, since that of the set may be its newest version's; and so has the set with other keys or
 * another profile while it is mounted, or nobody could mount it whose Secret was renewed meanwhile.
 * One that is written has one folder in any case: what is not stored yet lies in it. */
static char *choose_folder(struct node *n, const char *key, const struct attributes *a)
{
    const char *base = node_cache_dir(n), *version = a->value[ATTR_VERSION];
    cleanup_free char *first =
        version ? xasprintf("%s/version-%.16s", base, version) : xstrdup(base);
    char *folder = xstrdup(first);
    bool written = attribute_true(a, ATTR_WRITABLE);
    for (unsigned i = 1; !written && others_have(n, key, a, NULL, folder); i++) {
        free(folder);
        folder = xasprintf("%s%s%u", first, version ? "-" : "/apart-", i);
    }
    return folder;
}

void set_choose_words(struct node *n, const char *key, const struct set_wish *wish,
                      struct bytes *out)
{
    struct attributes own = *wish->attributes;
    const struct attributes *a = &own;
    const char *version = a->value[ATTR_VERSION];
    attributes_words(a, wish->gid, out);
    if (!attribute_true(a, ATTR_WRITABLE) && others_have(n, key, a, out, NULL)) {
        log_warn(n->conf.log,
                 "set %s: the folder that `cache` names is that of a mount with other keys or "
                 "options: this one has its cache in the driver's folder",
                 a->value[ATTR_URI]);
        own.value[ATTR_CACHE] = NULL;
        bytes_clear(out);
        attributes_words(a, wish->gid, out);
    }
    if (!a->value[ATTR_CACHE]) {
        cleanup_free char *folder = choose_folder(n, key, a);
        if (n->conf.cache_dir || strcmp(folder, CACHE_DIR_DEFAULT) != 0) {
            add_word(out, "--cache-dir");
            add_word(out, folder);
        }
    }
    if (!attribute_true(a, ATTR_WRITABLE)) {
        cleanup_free char *direct = set_path(n, key, SET_DIRECT);
        add_word(out, "--direct");
        add_word(out, direct);
    }
    if (version) {
        cleanup_free char *catalog = catalog_word(n->conf.state, a);
        add_word(out, "--catalog");
        add_word(out, catalog);
    }
}

/* --- of older plugins ------------------------------------------------------------------------- */

/* A word, and the one behind it. */
static void drop_option(struct bytes *words, const char *name)
{
    for (size_t at = 0; at < words->len; at += strlen(words->data + at) + 1) {
        if (strcmp(words->data + at, name) != 0)
            continue;
        size_t end = at + strlen(name) + 1;
        end += end < words->len ? strlen(words->data + end) + 1 : 0;
        memmove(words->data + at, words->data + end, words->len - end);
        words->len -= end - at;
        return;
    }
}

void set_adopt_words(struct set *s)
{
    if (!is_written(s))
        return;
    s->tokened = false;
    drop_option(&s->words, "--peers");
}

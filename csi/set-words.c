/* What `sampan mount` is told of a set: kept in its record, each word with its NUL. */
#include <string.h>

#include "catalogs.h"
#include "mem.h"
#include "node-internal.h"

/* --- looked at -------------------------------------------------------------------------------- */

/* The word behind an option of `sampan mount`; NULL: it is not given. */
static const char *option_of(const struct set *s, const char *name)
{
    for (size_t at = 0; at < s->words.len; at += strlen(s->words.data + at) + 1)
        if (strcmp(s->words.data + at, name) == 0)
            return s->words.data + at + strlen(name) + 1;
    return NULL;
}

const char *set_named_file(const struct set *s)
{
    const char *word = option_of(s, "--catalog");
    return word && catalog_word_is_file(word) ? word : NULL;
}

/* --- chosen ----------------------------------------------------------------------------------- */

static void add_word(struct bytes *out, const char *word)
{
    bytes_add(out, word, strlen(word) + 1);
}

/* Does the same set, with other keys, have its cache below that folder? */
static bool others_have(struct node *n, const char *key, const char *identity, const char *folder)
{
    ACQUIRE(&n->lock);
    for (const struct set *s = n->sets; s; s = s->next) {
        if (!*s->uri || strcmp(s->key, key) == 0 || strcmp(s->identity, identity) != 0)
            continue;
        const char *theirs = option_of(s, "--cache-dir");
        if (strcmp(theirs ? theirs : node_cache_dir(n), folder) == 0)
            return true;
    }
    return false;
}

/* Where a set that names no cache has it: in the driver's folder. A pinned version has one of its
 * own, since that of the set may be its newest version's; and so has the set with other keys while
 * it is mounted with some, or nobody could mount it whose Secret was renewed meanwhile. One that is
 * written has one folder in any case: what is not stored yet lies in it. */
static char *choose_folder(struct node *n, const char *key, const struct set_wish *wish,
                           const char *identity)
{
    const char *base = node_cache_dir(n), *version = wish->attributes->value[ATTR_VERSION];
    cleanup_free char *first =
        version ? xasprintf("%s/version-%.16s", base, version) : xstrdup(base);
    char *folder = xstrdup(first);
    bool written = attribute_true(wish->attributes, ATTR_WRITABLE);
    for (unsigned i = 1; !written && others_have(n, key, identity, folder); i++) {
        free(folder);
        folder = xasprintf("%s%s%u", first, version ? "-" : "/apart-", i);
    }
    return folder;
}

void set_choose_words(struct node *n, const char *key, const struct set_wish *wish,
                      const char *identity, struct bytes *out)
{
    const struct attributes *a = wish->attributes;
    const char *version = a->value[ATTR_VERSION];
    attributes_words(a, wish->gid, out);
    if (!a->value[ATTR_CACHE]) {
        cleanup_free char *folder = choose_folder(n, key, wish, identity);
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
    if (!s->words.len || !memmem(s->words.data, s->words.len, "--writable", sizeof "--writable"))
        return;
    s->tokened = false;
    drop_option(&s->words, "--peers");
}

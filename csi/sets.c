/*
 * The table of sets and their records: who works on one, which set a volume uses. (set-mount.c
 * brings them up and ends them.)
 */
#include <string.h>

#include "clock.h"
#include "mem.h"
#include "node-internal.h"

/* --- the table -------------------------------------------------------------------------------- */

static struct set *find(const struct node *n, const char *key)
{
    for (struct set *s = n->sets; s; s = s->next)
        if (strcmp(s->key, key) == 0)
            return s;
    return NULL;
}

static struct set *add(struct node *n, const char *key)
{
    struct set *s = xcalloc(1, sizeof *s);
    snprintf(s->key, sizeof s->key, "%s", key);
    s->uri = xstrdup("");
    s->identity = xstrdup("");
    s->mountpoint = set_mountpoint(n, key);
    s->next = n->sets;
    n->sets = s;
    return s;
}

static void set_free(struct set *s)
{
    set_let_go(s);
    free(s->uri);
    free(s->identity);
    free(s->mountpoint);
    bytes_release(&s->words);
    free(s);
}

static void drop(struct node *n, struct set *s)
{
    struct set **at = &n->sets;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    set_free(s);
}

static struct set *begin(struct node *n, struct set *s)
{
    s->users++;
    while (s->busy)
        cond_wait(&n->cond, &n->lock);
    s->busy = true;
    return s;
}

struct set *set_begin(struct node *n, const char *key)
{
    ACQUIRE(&n->lock);
    struct set *s = find(n, key);
    return s ? begin(n, s) : NULL;
}

struct set *set_try(struct node *n, const char *key)
{
    ACQUIRE(&n->lock);
    struct set *s = find(n, key);
    return s && !s->busy ? begin(n, s) : NULL;
}

struct set *set_begin_or_add(struct node *n, const char *key)
{
    ACQUIRE(&n->lock);
    struct set *s = find(n, key);
    return begin(n, s ? s : add(n, key));
}

/* A set without a record is forgotten with the last call that knows it. */
void set_end(struct node *n, struct set *s)
{
    ACQUIRE(&n->lock);
    s->busy = false;
    s->users--;
    if (!s->users && !*s->uri)
        drop(n, s);
    cond_broadcast(&n->cond);
}

char **sets_keys(struct node *n, size_t *ret_n)
{
    ACQUIRE(&n->lock);
    char **keys = NULL;
    *ret_n = 0;
    for (const struct set *s = n->sets; s; s = s->next) {
        if (s->busy || !*s->uri)
            continue;
        keys = xrealloc(keys, (*ret_n + 1) * sizeof *keys);
        keys[(*ret_n)++] = xstrdup(s->key);
    }
    return keys;
}

bool sets_are_held(struct node *n)
{
    ACQUIRE(&n->lock);
    uint64_t now = clock_mono_ns();
    for (const struct set *s = n->sets; s; s = s->next)
        if (*s->uri && (s->busy || s->anew || (!s->holds && now >= s->hold_after)))
            return false;
    return true;
}

void set_note_anew(struct node *n, const char *key)
{
    ACQUIRE(&n->lock);
    struct set *s = find(n, key);
    if (s)
        s->anew = true;
}

bool sets_are_idle(struct node *n)
{
    ACQUIRE(&n->lock);
    for (const struct set *s = n->sets; s; s = s->next)
        if (s->busy)
            return false;
    return true;
}

/* --- records ---------------------------------------------------------------------------------- */

int set_store(struct node *n, const struct set *s, struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    struct json_writer w;
    state_begin(&w, &text, s->key);
    jw_str(&w, "uri", s->uri);
    jw_str(&w, "identity", s->identity);
    jw_bool(&w, "keyed", s->keyed);
    jw_bool(&w, "tokened", s->tokened);
    jw_bool(&w, "given", s->given);
    jw_array(&w, "words");
    for (size_t at = 0; at < s->words.len; at += strlen(s->words.data + at) + 1)
        jw_str(&w, NULL, s->words.data + at);
    jw_end(&w);
    jw_end(&w);
    return state_write(&n->sets_dir, s->key, &text, err);
}

/* Plugins of before had a set for each group, of which one could be mounted. */
static char *identity_of_now(const char *identity)
{
    const char *group = strstr(identity, "\nwritable gid="); /* stands last */
    return group ? xasprintf("%.*s\nwritable\n", (int)(group - identity), identity)
                 : xstrdup(identity);
}

static int load_one(void *arg, const struct json *record, struct err *err)
{
    struct node *n = arg;
    const char *key, *uri, *identity, *word;
    bool keyed, tokened, given;
    if (json_str(record, "id", &key, err))
        return -1;
    if (strlen(key) + 1 != STATE_NAME_BYTES || json_str(record, "uri", &uri, NULL) ||
        json_str(record, "identity", &identity, NULL) || json_bool(record, "keyed", &keyed, NULL) ||
        json_bool_or(record, "tokened", false, &tokened, NULL) ||
        json_bool_or(record, "given", true, &given, NULL))
        return 1;
    struct set *s = add(n, key);
    free(s->uri);
    free(s->identity);
    s->uri = xstrdup(uri);
    s->identity = identity_of_now(identity);
    s->given = given;
    s->keyed = keyed;
    s->tokened = tokened;
    s->anew = true; /* the plugin before may have been cut off in the middle of it */
    struct json words = json_get(record, "words");
    for (size_t i = 0; i < json_count(&words); i++) {
        struct json w = json_at(&words, i);
        if (json_as_str(&w, &word, NULL) == 0)
            bytes_add(&s->words, word, strlen(word) + 1);
    }
    set_adopt_words(s);
    return 0;
}

int sets_load(struct node *n, struct err *err)
{
    return state_walk(&n->sets_dir, load_one, n, n->conf.log, err);
}

void sets_free(struct node *n)
{
    while (n->sets)
        drop(n, n->sets);
}

/* --- secrets ---------------------------------------------------------------------------------- */

int set_renew(struct node *n, const char *key, const struct secrets *secrets, struct err *err)
{
    if (!secrets->keys.len && !secrets->token.len)
        return 0;
    cleanup_set struct set_scope scope = {n, set_begin(n, key)};
    return scope.set ? set_write_secrets(n, scope.set, secrets, err) : 0;
}

bool set_lacks(struct node *n, const char *key, const struct secrets *secrets)
{
    ACQUIRE(&n->lock);
    const struct set *s = find(n, key);
    return s && *s->uri &&
           ((secrets->keys.len && !s->keyed) || (secrets->token.len && !s->tokened));
}

/* --- which set -------------------------------------------------------------------------------- */

void set_choose(struct node *n, const struct set_wish *wish, char ret_key[STATE_NAME_BYTES])
{
    cleanup_secrets struct secrets named = {0}; /* what the name is made from, keys and all */
    struct bytes *text = &named.keys;
    const struct bytes *keys = &wish->secrets->keys;
    attributes_identity(wish->attributes, text);
    cleanup_free char *identity = xstrdup(text->data ? text->data : "");
    bytes_add(text, keys->data ? keys->data : "", keys->len);
    bytes_add(text, "", 0);
    char own[STATE_NAME_BYTES];
    state_name(text->data, own);
    ACQUIRE(&n->lock);
    for (const struct set *s = n->sets; s; s = s->next)
        if (*s->uri && strcmp(s->identity, identity) == 0 && set_has_keys(n, s, keys, own)) {
            snprintf(ret_key, STATE_NAME_BYTES, "%s", s->key);
            return;
        }
    /* A set whose keys were renewed keeps the name that it got with the old ones. */
    const struct set *other;
    do {
        state_name(text->data, ret_key);
        bytes_add_char(text, '+');
    } while ((other = find(n, ret_key)) && *other->uri);
}

bool set_is_locked(struct node *n, const struct set_wish *wish)
{
    cleanup_bytes struct bytes identity = {0};
    if (wish->secrets->keys.len)
        return false;
    attributes_identity(wish->attributes, &identity);
    ACQUIRE(&n->lock);
    bool keyed = false, open = false;
    for (const struct set *s = n->sets; s; s = s->next) {
        if (!*s->uri || strcmp(s->identity, identity.data) != 0)
            continue;
        keyed = keyed || s->keyed;
        open = open || !s->keyed;
    }
    return keyed && !open;
}

int set_check_group(struct node *n, const char *key, int64_t gid, struct err *err)
{
    ACQUIRE(&n->lock);
    const struct set *s = find(n, key);
    int64_t has = s && *s->uri ? set_group(s) : gid;
    if (gid < 0 || has == gid)
        return 0;
    cleanup_free char *whose =
        has < 0 ? xstrdup("a volume whose pods have no fsGroup")
                : xasprintf("another volume, whose pods have the fsGroup %lld", (long long)has);
    return err_set(err, ERR_LIMIT,
                   "its set is mounted on this node for %s, and is one group's at a time: this pod "
                   "has the fsGroup %lld (give both the same one, or run them on other nodes)",
                   whose, (long long)gid);
}

/* What was asked for: is it possible, of which stores, and of which of their files? */
#include <errno.h>
#include <string.h>

#include "sync-internal.h"

#define LINE_MAX_BYTES 8192 /* of a list of files */

int sync_check(const struct sync_conf *c, struct err *err)
{
    if (c->n_sources == 0)
        return err_set(err, ERR_USAGE, "want a source");
    if (c->shares && c->share >= c->shares)
        return err_set(err, ERR_USAGE, "--share: want I/N with I below N");
    if (c->limit && c->delete_dst)
        return err_set(err, ERR_USAGE, "--limit and --delete-dst exclude each other");
    /* Broken off and run again, it would delete what it had moved. */
    if (c->delete_src && c->delete_dst)
        return err_set(err, ERR_USAGE,
                       "--delete-src and --delete-dst exclude each other: what one run has moved, "
                       "the next would delete");
    if (c->hasty && (c->delete_src || c->pack_size))
        return err_set(err, ERR_USAGE, "--no-fsync goes with no --delete-src and --pack");
    if (c->existing && c->ignore_existing)
        return err_set(err, ERR_USAGE, "--existing and --ignore-existing together copy nothing");
    if (c->pack_size && (c->pack_size < (8u << 20) || c->pack_size > (64u << 20)))
        return err_set(err, ERR_USAGE, "--pack: want 8MiB to 64MiB");
    if (c->pack_size && (c->delete_src || c->perms || c->links || c->dirs || c->shares ||
                         c->check_all || c->existing || c->ignore_existing || c->limit))
        return err_set(err, ERR_USAGE,
                       "--pack goes with no --delete-src, --perms, --links, --dirs, --share, "
                       "--check-all, --existing, --ignore-existing and --limit");
    return sync_rules_check(c->rules, c->n_rules, err);
}

/* An address is that of one store. Folders and web servers have it in their URI alone. */
static int check_endpoint(const struct sync_run *r, const struct store *s, struct err *err)
{
    const char *from = r->conf->from.endpoint, *to = r->conf->to.endpoint;
    bool both = (store_caps(s) & store_caps(r->to) & STORE_WRITES) &&
                !((store_caps(s) | store_caps(r->to)) & STORE_LOCAL);
    if (!from || !to || strcmp(from, to) != 0 || !both || stores_of_a_kind(s, r->to))
        return 0;
    return err_set(err, ERR_USAGE,
                   "--endpoint: %s is no address of both %s and %s (give --endpoint for the "
                   "source, --dst-endpoint for the destination)",
                   from, store_uri(s), store_uri(r->to));
}

static int check_store(const struct sync_run *r, const struct store *s, struct err *err)
{
    const struct sync_conf *c = r->conf;
    if (check_endpoint(r, s, err))
        return -1;
    switch (stores_relation(s, r->to)) {
    case STORES_APART:
        break;
    case STORES_SAME:
        return err_set(err, ERR_USAGE, "source and destination are the same: %s", store_uri(s));
    case STORE_HOLDS_OTHER:
        return err_set(err, ERR_USAGE, "the destination lies in the source: %s in %s",
                       store_uri(r->to), store_uri(s));
    case STORE_IN_OTHER:
        return err_set(err, ERR_USAGE, "the source lies in the destination: %s in %s", store_uri(s),
                       store_uri(r->to));
    }
    const struct store *ends[] = {s, r->to};
    for (size_t i = 0; i < 2; i++)
        if ((c->links || c->perms) && !keeps_meta(ends[i]))
            return err_set(err, ERR_USAGE,
                           "%s: %s keeps none of them (local folders, S3 and BOS do)",
                           c->links ? "--links" : "--perms", store_uri(ends[i]));
    if (c->delete_src && !(store_caps(s) & STORE_WRITES))
        return err_set(err, ERR_USAGE, "--delete-src: nothing can be deleted at %s", store_uri(s));
    return 0;
}

static int open_sources(struct sync_run *r, const char *arg, struct err *err)
{
    struct set set;
    if (set_from_arg(&set, arg, err))
        return -1;
    int result = 0;
    for (size_t i = 0; i < set.n && result == 0; i++) {
        r->sources = xrealloc(r->sources, (r->n_sources + 1) * sizeof *r->sources);
        struct sync_source *s = &r->sources[r->n_sources];
        *s = (struct sync_source){0};
        result = store_open(&s->store, set.sources[i].uri, &r->conf->from, err);
        if (result)
            break;
        s->at = xstrdup(set.sources[i].at);
        r->n_sources++;
        result = check_store(r, s->store, err);
    }
    set_release(&set);
    return result;
}

int run_open_stores(struct sync_run *r, struct err *err)
{
    if (store_open(&r->to, r->conf->destination, &r->conf->to, err))
        return -1;
    if (!(store_caps(r->to) & STORE_WRITES))
        return err_set(err, ERR_USAGE, "nothing can be written to %s", store_uri(r->to));
    for (size_t i = 0; i < r->conf->n_sources; i++)
        if (open_sources(r, r->conf->sources[i], err))
            return -1;
    return 0;
}

int run_load_list(struct sync_run *r, struct err *err)
{
    const char *file = r->conf->files_from;
    if (!file)
        return 0;
    cleanup_file FILE *in = fopen(file, "re");
    if (!in)
        return err_sys(err, errno, "open the list %s", file);
    r->listed = sorter_new(r->temp_dir, 16u << 20);
    cleanup_free char *line = NULL;
    size_t cap = 0;
    for (ssize_t len; (len = getline(&line, &cap, in)) >= 0;) {
        const char *at = line;
        while (len && (line[len - 1] == '\n' || line[len - 1] == '\r'))
            line[--len] = '\0';
        at += strncmp(at, "./", 2) == 0 ? 2 : 0;
        at += *at == '/';
        size_t n = (size_t)(len - (at - line));
        if (n == 0)
            continue;
        if (n > LINE_MAX_BYTES)
            return err_set(err, ERR_USAGE, "%s: a line of %zu bytes is no key", file, n);
        if (sorter_add(r->listed, at, n, "", 0, err))
            return -1;
    }
    return ferror(in) ? err_sys(err, errno, "read the list %s", file) : 0;
}

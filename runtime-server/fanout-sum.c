/* The words of a cluster's job: what each child is told, and the sum of what they answer. */
#include <string.h>

#include "fanout-internal.h"
#include "mem.h"
#include "object.h"

#define LISTED_MAX 1000 /* items of a list */

/* --- what a child is told --------------------------------------------------------------------- */

/* Packs are made by one alone; a local folder is another one on each server. */
bool fanout_is_single(const char *type, const struct json *options)
{
    const char *destination = "", *uri;
    bool store = false;
    json_bool_or(options, "store", false, &store, NULL);
    if (strcmp(type, "rmr") == 0 || store) /* the store is one for all */
        return true;
    if (strcmp(type, "sync") != 0)
        return false;
    json_str(options, "destination", &destination, NULL);
    struct json sources = json_get(options, "sources");
    for (size_t i = 0; i < json_count(&sources); i++) {
        struct json item = json_at(&sources, i);
        if (json_as_str(&item, &uri, NULL) == 0 && store_uri_folder(uri))
            return true;
    }
    return json_uint_at(options, "pack") || store_uri_folder(destination);
}

static void add_members(struct json_writer *w, const struct json *object)
{
    static const char *const ours[] = {"scope", "lost_after_s"};
    const char *mask;
    for (size_t i = 0; i < json_count(object); i++) {
        struct json value = json_member(object, i);
        cleanup_wiped struct bytes text = {0};
        if (strcmp(value.key, ours[0]) == 0 || strcmp(value.key, ours[1]) == 0)
            continue;
        if (json_as_str(&value, &mask, NULL) == 0 && strcmp(mask, SECRET_MASK) == 0)
            continue; /* the keys themselves follow */
        json_text(&value, &text);
        jw_raw(w, value.key, text.data);
    }
}

void fanout_body(const struct fanout *f, unsigned partition, const char *id, struct bytes *ret)
{
    struct json_writer w;
    const char *secret = job_secret(f->run);
    cleanup_json struct json_doc *doc = NULL;
    char share[32];
    snprintf(share, sizeof share, "%u/%u", partition, f->n);
    jw_init(&w, ret);
    jw_object(&w, NULL);
    jw_str(&w, "id", id);
    jw_str(&w, "type", f->type);
    jw_object(&w, "options");
    jw_str(&w, "scope", "node");
    add_members(&w, f->options);
    if (strcmp(f->type, "warmup") == 0)
        jw_str(&w, "partition", share);
    if (strcmp(f->type, "sync") == 0 && f->n > 1)
        jw_str(&w, "share", share);
    if (secret && json_parse(&doc, "credentials", secret, strlen(secret), NULL) == 0) {
        struct json root = json_root(doc);
        add_members(&w, &root);
    }
    jw_end(&w);
    jw_end(&w);
}

/* --- how far they are ------------------------------------------------------------------------- */

struct job_progress fanout_progress(const struct child *children, unsigned n)
{
    struct job_progress sum = {.eta_s = -1};
    unsigned known = 0;
    for (unsigned i = 0; i < n; i++) {
        const struct job_progress *p = &children[i].progress;
        bool done = children[i].ended;
        sum.items += p->items;
        sum.bytes += p->bytes;
        sum.failed += p->failed;
        sum.total_items += p->total_items;
        sum.total_bytes += p->total_bytes;
        known += p->total_items || p->total_bytes || done;
        if (!done && p->eta_s > sum.eta_s)
            sum.eta_s = p->eta_s;
    }
    if (known && known < n) {
        sum.total_items += sum.total_items * (n - known) / known;
        sum.total_bytes += sum.total_bytes * (n - known) / known;
    }
    return sum;
}

/* --- what they answer ------------------------------------------------------------------------- */

/* One field over all results. */
struct sum {
    int64_t whole;
    double number;
    bool is_whole, is_number, is_truth, truth, is_text, differs, is_list;
    const char *text;
    struct bytes items; /* of a list, with commas */
    size_t n_items;
};

static void add_list(struct sum *s, const struct json *list)
{
    s->is_list = true;
    for (size_t i = 0; i < json_count(list) && s->n_items < LISTED_MAX; i++, s->n_items++) {
        struct json item = json_at(list, i);
        bytes_add_str(&s->items, s->n_items ? "," : "");
        json_text(&item, &s->items);
    }
}

static void add_field(struct sum *s, const struct json *result, const char *key)
{
    struct json value = json_get(result, key);
    const char *text;
    double number;
    int64_t whole;
    bool truth, longest = strcmp(key, "seconds") == 0; /* they worked side by side */
    if (json_as_int(&value, INT64_MIN, INT64_MAX, &whole, NULL) == 0) {
        s->is_whole = true;
        s->whole += whole;
    }
    if (json_num(result, key, &number, NULL) == 0) {
        s->is_number = true;
        s->number = longest ? (number > s->number ? number : s->number) : s->number + number;
        s->is_whole = s->is_whole && !longest && (double)s->whole == s->number;
    } else if (json_bool(result, key, &truth, NULL) == 0) {
        s->truth = truth && (s->truth || !s->is_truth);
        s->is_truth = true;
    } else if (json_as_str(&value, &text, NULL) == 0) {
        s->differs = s->differs || (s->is_text && strcmp(s->text, text) != 0);
        s->is_text = true;
        s->text = text;
    } else if (json_want_array(&value, NULL) == 0) {
        add_list(s, &value);
    }
}

static void write_field(struct json_writer *w, const char *key, struct sum *s)
{
    if (s->is_whole)
        jw_int(w, key, s->whole);
    else if (s->is_number)
        jw_num(w, key, s->number);
    else if (s->is_truth)
        jw_bool(w, key, s->truth);
    else if (s->is_text && !s->differs)
        jw_str(w, key, s->text);
    else if (s->is_list) {
        cleanup_free char *text = xasprintf("[%s]", s->items.data ? s->items.data : "");
        jw_raw(w, key, text);
    }
    bytes_release(&s->items);
}

/* The scalars of one result. */
static void write_own(struct json_writer *w, const struct json *result)
{
    jw_object(w, "result");
    for (size_t i = 0; i < json_count(result); i++) {
        struct json value = json_member(result, i);
        cleanup_bytes struct bytes text = {0};
        if (json_want_array(&value, NULL) == 0)
            continue;
        json_text(&value, &text);
        jw_raw(w, value.key, text.data);
    }
    jw_end(w);
}

struct results {
    struct json_doc **docs; /* NULL: it has none */
    struct json *roots;
};

static void read_results(const struct fanout *f, struct results *ret)
{
    ret->docs = xcalloc(f->n, sizeof *ret->docs);
    ret->roots = xcalloc(f->n, sizeof *ret->roots);
    for (unsigned i = 0; i < f->n; i++) {
        const char *text = f->children[i].result;
        if (!text || json_parse(&ret->docs[i], "result", text, strlen(text), NULL))
            continue;
        ret->roots[i] = json_root(ret->docs[i]);
        if (json_want_object(&ret->roots[i], NULL) == 0)
            continue;
        json_doc_free(ret->docs[i]);
        ret->docs[i] = NULL;
    }
}

static void free_results(const struct fanout *f, struct results *all)
{
    for (unsigned i = 0; i < f->n; i++)
        json_doc_free(all->docs[i]);
    free(all->docs);
    free(all->roots);
}

/* Each server's scan is of the whole set, and all must have found the same. */
static int check_versions(const struct fanout *f, const struct results *all, struct err *err)
{
    const char *first = NULL, *version;
    for (unsigned i = 0; i < f->n; i++) {
        if (!all->docs[i] || json_str(&all->roots[i], "version", &version, NULL))
            continue;
        if (first && strcmp(first, version) != 0)
            return err_set(err, ERR_FAILED,
                           "the servers have different versions of the set, as it changes: %s on "
                           "server 0, %s on server %u (scan again)",
                           first, version, i);
        first = first ? first : version;
    }
    return 0;
}

/* The fields are those of the first result; all of one type of job have the same. */
static void write_sums(const struct fanout *f, const struct results *all, struct json_writer *w)
{
    bool whole_set = strcmp(f->type, "scan") == 0;
    unsigned first = 0;
    while (first < f->n && !all->docs[first])
        first++;
    for (size_t k = 0; first < f->n && k < json_count(&all->roots[first]); k++) {
        struct json field = json_member(&all->roots[first], k);
        struct sum sum = {0};
        for (unsigned i = first; i < (whole_set ? first + 1 : f->n); i++)
            if (all->docs[i])
                add_field(&sum, &all->roots[i], field.key);
        write_field(w, field.key, &sum);
    }
}

int fanout_sum(const struct fanout *f, struct bytes *ret, struct err *err)
{
    struct results all;
    struct json_writer w;
    read_results(f, &all);
    int rc = check_versions(f, &all, err);
    jw_init(&w, ret);
    jw_object(&w, NULL);
    write_sums(f, &all, &w);
    jw_array(&w, "partitions");
    for (unsigned i = 0; i < f->n; i++) {
        jw_object(&w, NULL);
        jw_uint(&w, "partition", f->children[i].partition);
        jw_str(&w, "state", job_state_name(f->children[i].state));
        if (all.docs[i])
            write_own(&w, &all.roots[i]);
        jw_end(&w);
    }
    jw_end(&w);
    jw_end(&w);
    free_results(f, &all);
    return rc;
}

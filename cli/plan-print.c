/* What plan prints: the order, its batches, who keeps what, and the summary. */
#include <inttypes.h>
#include <string.h>

#include "mem.h"
#include "plan-internal.h"

#define PIECE (1u << 20) /* written at a time */

/* Prints what is there once it is enough. */
static int flush_piece(struct bytes *out, bool now, struct err *err)
{
    if (!out->len || (!now && out->len < PIECE))
        return 0;
    int result = print_out(out, err);
    bytes_clear(out);
    return result;
}

static void add_number(struct bytes *out, uint64_t n, char end)
{
    char digits[24];
    size_t at = sizeof digits;
    digits[--at] = end;
    do
        digits[--at] = (char)('0' + n % 10);
    while (n /= 10);
    bytes_add(out, digits + at, sizeof digits - at);
}

/* --- the order -------------------------------------------------------------------------------- */

/* The i-th of the sampler's epochs. A resumed one is the rest of its first. */
static int open_order(const struct planning *g, uint32_t i, struct order **ret, struct err *err)
{
    struct order_spec spec = g->conf.sampler;
    if (g->resume && i == 0)
        return order_resume(ret, g->resume, spec.ranks, spec.rank, err);
    spec.epoch += i;
    return order_new(ret, &spec, g->samples, err);
}

/* Calls `each` for all positions of all epochs; `last`: the epoch ends there. */
typedef int position_fn(void *arg, uint64_t number, bool last, struct err *err);
static int each_position(const struct planning *g, position_fn *each, void *arg, struct err *err)
{
    for (uint32_t i = 0; i < g->conf.sampler.epochs; i++) {
        struct order *o;
        if (open_order(g, i, &o, err))
            return -1;
        uint64_t n = order_length(o);
        int result = 0;
        for (uint64_t pos = 0; pos < n && !result; pos++)
            result = each(arg, order_at(o, pos), pos + 1 == n, err);
        order_free(o);
        if (result)
            return -1;
    }
    return 0;
}

struct printing {
    struct bytes out;
    uint64_t batch_size, in_batch;
};

static int print_number(void *arg, uint64_t number, bool last, struct err *err)
{
    struct printing *p = arg;
    bool end = last || p->in_batch + 1 == p->batch_size;
    p->in_batch = end ? 0 : p->in_batch + 1;
    add_number(&p->out, number, end ? '\n' : ' ');
    return flush_piece(&p->out, false, err);
}

static int print_runs(const struct planning *g, uint64_t batch_size, struct err *err)
{
    struct printing p = {.batch_size = batch_size};
    int result = each_position(g, print_number, &p, err);
    if (!result)
        result = flush_piece(&p.out, true, err);
    bytes_release(&p.out);
    return result;
}

int plan_print_order(const struct planning *g, struct err *err)
{
    return print_runs(g, 1, err);
}

int plan_print_batches(const struct planning *g, struct err *err)
{
    return print_runs(g, g->conf.sampler.batch_size, err);
}

int plan_print_token(const struct planning *g, struct err *err)
{
    struct order *o;
    struct order_token t;
    char text[ORDER_TOKEN_TEXT];
    if (open_order(g, 0, &o, err))
        return -1;
    int result = order_token_of(o, (uint64_t)g->options->position, &t, err);
    order_free(o);
    if (result)
        return -1;
    order_token_print(&t, text);
    cleanup_bytes struct bytes out = {0};
    bytes_addf(&out, "%s\n", text);
    return print_out(&out, err);
}

/* --- who keeps what --------------------------------------------------------------------------- */

/* Walked by id, printed by number. */
struct keepers {
    uint16_t *owner;
    struct more {
        uint64_t number;
        uint32_t partition;
    } * more;
    size_t n_more, cap;
};

static bool note_keepers(void *arg, const struct plan_sample *s)
{
    struct keepers *k = arg;
    if (s->number == OWNER_NO_NUMBER)
        return true;
    k->owner[s->number] = (uint16_t)s->owner;
    for (size_t i = 0; i < s->n_repeats; i++) {
        if (k->n_more == k->cap) {
            k->cap = k->cap ? k->cap * 2 : 64;
            k->more = xrealloc(k->more, k->cap * sizeof *k->more);
        }
        k->more[k->n_more++] = (struct more){s->number, s->repeats[i]};
    }
    return true;
}

static int by_number(const void *a, const void *b)
{
    const struct more *x = a, *y = b;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return (x->partition > y->partition) - (x->partition < y->partition);
}

static int print_keepers(const struct planning *g, const struct keepers *k, struct err *err)
{
    cleanup_bytes struct bytes out = {0};
    size_t at = 0;
    for (uint64_t i = 0; i < g->samples; i++) {
        size_t first = at;
        bool kept = g->only < 0 || k->owner[i] == g->only;
        for (; at < k->n_more && k->more[at].number == i; at++)
            kept |= k->more[at].partition == g->only;
        if (!kept)
            continue;
        add_number(&out, i, '\t');
        bytes_addf(&out, "%u", (unsigned)k->owner[i]);
        for (size_t m = first; m < at; m++)
            bytes_addf(&out, ",%u", k->more[m].partition);
        bytes_add_char(&out, '\n');
        if (flush_piece(&out, false, err))
            return -1;
    }
    return flush_piece(&out, true, err);
}

int plan_print_partition(const struct planning *g, struct err *err)
{
    struct plan *plan;
    if (plan_new(&plan, &g->conf, err))
        return -1;
    struct keepers k = {.owner = xcalloc(g->samples + 1, sizeof *k.owner)};
    int result = plan_each(plan, note_keepers, &k, err);
    if (!result && k.n_more)
        qsort(k.more, k.n_more, sizeof *k.more, by_number);
    if (!result)
        result = print_keepers(g, &k, err);
    free(k.owner);
    free(k.more);
    plan_free(plan);
    return result;
}

/* --- the summary ------------------------------------------------------------------------------ */

#define TELL_EACH (1u << 24) /* numbers */

/* The sum of all epochs' orders; says how far it is where that takes a while. */
static int sum_orders(const struct planning *g, struct order_crc *crc, struct err *err)
{
    struct progress progress;
    progress_init(&progress, false);
    for (uint32_t i = 0; i < g->conf.sampler.epochs; i++) {
        struct order *o;
        uint64_t first;
        if (open_order(g, i, &o, err))
            return -1;
        uint64_t n = order_length(o);
        if (order_is_range(o, &first)) {
            order_crc_range(crc, first, first + n);
            n = 0;
        }
        for (uint64_t pos = 0; pos < n; pos++) {
            order_crc_add(crc, order_at(o, pos));
            if (pos % TELL_EACH == 0)
                progress_show(
                    &progress, "positions",
                    &(struct how_far){.done = i * n + pos, .total = n * g->conf.sampler.epochs});
        }
        order_free(o);
    }
    progress_end(&progress);
    return 0;
}

static bool shown(const struct planning *g, uint32_t partition)
{
    return g->only < 0 || (uint32_t)g->only == partition;
}

static void write_part(struct json_writer *w, const struct planning *g, uint32_t i,
                       const struct plan_part *part)
{
    jw_object(w, NULL);
    jw_uint(w, "partition", i);
    jw_uint(w, "samples", part->samples);
    jw_uint(w, "bytes", part->bytes);
    jw_uint(w, "repeats", part->repeat_samples);
    jw_uint(w, "repeat_bytes", part->repeat_bytes);
    if (g->has_room)
        jw_bool(w, "fits", part->stored <= g->room);
    else
        jw_raw(w, "fits", "null");
    jw_uint(w, "reads", part->reads);
    jw_num(w, "local_reads", plan_local_share(part));
    jw_end(w);
}

static int print_json_summary(const struct planning *g, const struct plan_part *parts,
                              const struct plan_part *all, struct err *err)
{
    cleanup_bytes struct bytes out = {0};
    struct json_writer w;
    struct order_crc crc;
    char text[1500];
    order_crc_init(&crc);
    if (sum_orders(g, &crc, err))
        return -1;
    jw_init(&w, &out);
    jw_object(&w, NULL);
    jw_uint(&w, "samples", all->samples);
    jw_uint(&w, "bytes", all->bytes);
    jw_uint(&w, "ranks", g->conf.sampler.ranks);
    order_spec_print(&g->conf.sampler, text, sizeof text);
    jw_str(&w, "sampler", text);
    jw_str(&w, "strategy", owner_strategy_name(g->conf.strategy));
    jw_array(&w, "partitions");
    for (uint32_t i = 0; i < g->conf.partitions; i++)
        if (shown(g, i))
            write_part(&w, g, i, &parts[i]);
    jw_end(&w);
    jw_num(&w, "local_reads", plan_local_share(all));
    snprintf(text, sizeof text, "%08x", order_crc_value(&crc));
    jw_str(&w, "crc32", text);
    jw_end(&w);
    bytes_add_char(&out, '\n');
    return print_out(&out, err);
}

static void add_row(struct bytes *out, const struct planning *g, const char *name,
                    const struct plan_part *part, bool fits)
{
    char size[32];
    conf_format_size(part->bytes, size);
    bytes_addf(out, "%9s  %12" PRIu64 "  %10s  %8" PRIu64 "  %11.3f", name, part->samples, size,
               part->repeat_samples, plan_local_share(part));
    if (g->has_room)
        bytes_addf(out, "  %s", fits ? "fits" : "TOO LARGE");
    bytes_add_char(out, '\n');
}

static int print_text_summary(const struct planning *g, const struct plan_part *parts,
                              const struct plan_part *all, struct err *err)
{
    cleanup_bytes struct bytes out = {0};
    char text[1500];
    bool fits = true;
    order_spec_print(&g->conf.sampler, text, sizeof text);
    bytes_addf(&out, "strategy %s for %s\n%9s  %12s  %10s  %8s  %11s\n",
               owner_strategy_name(g->conf.strategy), text, "partition", "samples", "bytes",
               "repeats", "local reads");
    for (uint32_t i = 0; i < g->conf.partitions; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", i);
        bool here = parts[i].stored <= g->room;
        fits = fits && here;
        if (shown(g, i))
            add_row(&out, g, name, &parts[i], here);
    }
    if (g->only < 0)
        add_row(&out, g, "all", all, fits);
    if (!order_spec_deals(&g->conf.sampler) && g->conf.partitions > 1)
        bytes_add_str(&out, "Every rank reads the whole set: what its partition does not keep "
                            "comes from the others.\n");
    return print_out(&out, err);
}

int plan_print_summary(const struct planning *g, struct err *err)
{
    uint32_t n = g->conf.partitions;
    cleanup_free struct plan_part *parts = xcalloc(n ? n : 1, sizeof *parts);
    struct plan_part all = {0};
    if (plan_sum(&g->conf, parts, err))
        return -1;
    for (uint32_t i = 0; i < n; i++) {
        all.samples += parts[i].samples;
        all.bytes += parts[i].bytes;
        all.repeat_samples += parts[i].repeat_samples;
        all.reads += parts[i].reads;
        all.local += parts[i].local;
    }
    if (g->options->json)
        return print_json_summary(g, parts, &all, err);
    return print_text_summary(g, parts, &all, err);
}

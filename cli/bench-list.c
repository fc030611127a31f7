/* Which files a benchmark reads, and in which order. */
#include <errno.h>
#include <string.h>

#include "bench-internal.h"
#include "hash.h"
#include "mem.h"

#define RANKS_MAX 64

void file_list_shuffle(struct file_list *l, uint64_t seed)
{
    for (size_t i = l->n; i > 1; i--) {
        size_t k = hash_mix64(hash_mix64(seed) + i) % i;
        uint64_t swap = l->at[i - 1];
        l->at[i - 1] = l->at[k];
        l->at[k] = swap;
    }
}

/* The positions that ranks first .. first+n-1 read, a batch of each in turn. */
static void merge_ranks(struct order *const *ranks, uint32_t n, uint64_t batch,
                        const uint64_t *from, uint64_t *to)
{
    uint64_t out = 0;
    bool more = true;
    for (uint64_t round = 0; more; round++) {
        more = false;
        for (uint32_t r = 0; r < n; r++) {
            uint64_t length = order_length(ranks[r]);
            for (uint64_t pos = round * batch; pos < (round + 1) * batch && pos < length; pos++) {
                to[out++] = from[order_at(ranks[r], pos)];
                more = true;
            }
        }
    }
}

static uint32_t ranks_here(const struct order_spec *s, uint32_t *first)
{
    uint32_t ranks = s->ranks ? s->ranks : 1, per_node = s->ranks_per_node ? s->ranks_per_node : 1;
    *first = s->has_rank ? s->rank / per_node * per_node : 0;
    uint32_t n = s->has_rank ? per_node : ranks;
    return ranks - *first < n ? ranks - *first : n;
}

int bench_sampler(struct order_spec *ret, const char *text, struct err *err)
{
    if (order_spec_parse(ret, text, err))
        return err_wrap(err, "--sampler");
    /* Numbers here are those of the walk, not of lines. */
    return ret->list[0] ? err_set(err, ERR_USAGE, "--sampler: no list= (bench reads all of DIR)")
                        : 0;
}

int file_list_sample(struct file_list *l, const char *text, struct err *err)
{
    struct order_spec spec;
    if (bench_sampler(&spec, text, err))
        return -1;
    uint32_t first, n = ranks_here(&spec, &first);
    if (n > RANKS_MAX)
        return err_set(err, ERR_USAGE, "--sampler: %u ranks at once: at most %d (give rank=)", n,
                       RANKS_MAX);
    struct order *ranks[RANKS_MAX] = {0};
    uint64_t total = 0;
    int result = 0;
    for (uint32_t r = 0; r < n && !result; r++) {
        spec.rank = first + r;
        result = order_new(&ranks[r], &spec, l->n, err);
        total += result ? 0 : order_length(ranks[r]);
    }
    if (!result) {
        uint64_t *at = xcalloc(total, sizeof *at);
        merge_ranks(ranks, n, spec.batch_size ? spec.batch_size : 1, l->at, at);
        free(l->at);
        l->at = at;
        l->n = l->cap = total;
    }
    for (uint32_t r = 0; r < n; r++)
        if (ranks[r])
            order_free(ranks[r]);
    return result;
}

int file_list_read(struct file_list *ret, const char *file, struct err *err)
{
    cleanup_file FILE *f = fopen(file, "re");
    if (!f)
        return err_sys(err, errno, "read the order %s", file);
    cleanup_free char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    while ((n = getline(&line, &cap, f)) > 0) {
        if (line[n - 1] == '\n')
            n--;
        if (n && line[n - 1] == '\r')
            n--;
        if (n)
            file_list_add(ret, line, (size_t)n, 0);
    }
    return ferror(f) ? err_sys(err, errno, "read the order %s", file) : 0;
}

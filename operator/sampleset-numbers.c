/* What the servers say of set and caches, and how many of them there should be. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "conf.h"
#include "mem.h"
#include "object.h"
#include "sampleset-internal.h"

/* --- asking ----------------------------------------------------------------------------------- */

static void add_tiers(struct set_numbers *n, const struct json *tiers)
{
    int64_t room = 0;
    for (size_t i = 0; i < json_count(tiers); i++) {
        struct json t = json_at(tiers, i);
        int64_t used = part_int(&t, "used"), limit = part_int(&t, "limit");
        int64_t avail = part_int(&t, "free");
        if (limit - used < avail)
            avail = limit > used ? limit - used : 0;
        n->used += used;
        n->avail += avail;
        room += used + avail;
    }
    n->size += room;
    if (!n->smallest || room < n->smallest)
        n->smallest = room;
}

static void add_mount(struct set_numbers *n, const struct json *mount)
{
    struct json set = json_get(mount, "set"), cache = json_get(mount, "cache");
    struct json tiers = json_get(&cache, "tiers"), reads = json_get(mount, "reads");
    if (!n->known && part_int(&set, "samples") > 0) {
        n->known = true;
        n->total = part_int(&set, "bytes");
        n->files = part_int(&set, "samples");
    }
    n->cached += part_int(&cache, "bytes");
    n->reads += part_int(&reads, "total");
    n->local += part_int(&reads, "mem") + part_int(&reads, "disk");
    add_tiers(n, &tiers);
}

/* Why there is no answer has many words, with times in them: those that were told first stay until
 * there is one. */
static char *unanswered(const struct set_plan *p, size_t k, const char *why)
{
    cleanup_free char *head = xasprintf("server %zu does not answer: ", k);
    struct json was = json_get(&p->status, "cacheStatus");
    const char *told = part_text(&was, "errorMassage");
    return told && strncmp(told, head, strlen(head)) == 0
               ? xstrdup(told)
               : xasprintf("%s%s", head, why ? why : "nobody knows why");
}

static void ask(struct set_plan *p, size_t k)
{
    struct set_row *row = &p->rows[k];
    struct set_numbers *n = &p->numbers;
    cleanup_free char *url = part_server_url(p->ns, p->name, (int64_t)k, "/v1/status");
    row->answer = view_fetch(p->v, url);
    n->asked++;
    if (!row->answer)
        return;
    row->mounts = json_get(&row->answer->body, "mounts");
    row->mount = json_at(&row->mounts, 0);
    struct json set = json_get(&row->mount, "set");
    if (row->answer->status == 200 && set.node) {
        n->answered++;
        add_mount(n, &row->mount);
        return;
    }
    const char *why = row->answer->error ? row->answer->error : part_text(&row->mount, "error");
    if (n->error)
        return;
    if (!row->answer->status)
        n->error = unanswered(p, k, why);
    else
        n->error = row->answer->status == 200
                       ? xasprintf("server %zu: %s", k, why ? why : "it has no mount")
                       : xasprintf("server %zu: status %d", k, row->answer->status);
}

void set_ask_servers(struct set_plan *p)
{
    for (size_t k = 0; k < p->n_rows; k++)
        if (p->rows[k].ready)
            ask(p, k);
    if (p->numbers.cached > p->numbers.total && p->numbers.known)
        p->numbers.cached = p->numbers.total;
}

/* --- how many --------------------------------------------------------------------------------- */

#define SCALED      "sampan.io/scaled"
#define UP_WAIT_S   300 /* from one change to the next, by hit ratio */
#define DOWN_WAIT_S 1800
#define ENOUGH      1000 /* reads, before a ratio says something */
/* Shares of the room: above the first one node more is needed; with one node less it must still be
 * below the second. The gap keeps the number from going up and down. */
#define FULL_PERCENT 90
#define IDLE_PERCENT 70

struct scaled { /* at the last change */
    int64_t at, reads, local;
};

static struct scaled scaled_of(struct set_plan *p)
{
    const struct json *sts = view_get(p->v, KIND_STATEFULSET, p->ns, p->runtime);
    const char *text = sts ? object_annotation(sts, SCALED) : NULL;
    struct scaled s = {0};
    if (text && sscanf(text, "%" SCNd64 " %" SCNd64 " %" SCNd64, &s.at, &s.reads, &s.local) != 3)
        s = (struct scaled){0};
    if (s.reads > p->numbers.reads) /* mounts began anew */
        s.reads = s.local = 0;
    if (text)
        p->scaled = xstrdup(text);
    return s;
}

static int64_t nodes_for(const struct set_numbers *n, int64_t percent)
{
    double room = (double)n->smallest * (double)percent / 100;
    return room < 1 ? INT64_MAX : (int64_t)((double)n->total / room) + 1;
}

static int64_t by_capacity(const struct set_numbers *n, int64_t now)
{
    int64_t full = nodes_for(n, FULL_PERCENT), idle = nodes_for(n, IDLE_PERCENT);
    return full > now ? full : idle < now ? idle : now;
}

static int64_t by_hits(const struct set_plan *p, const struct scaled *s, int64_t now)
{
    const struct set_numbers *n = &p->numbers;
    int64_t reads = n->reads - s->reads, local = n->local - s->local,
            waited = view_now(p->v) - s->at;
    if (reads < ENOUGH)
        return now;
    double percent = 100.0 * (double)local / (double)reads;
    double target = (double)p->spec->autoscale->hit_percent;
    if (percent < target && waited >= UP_WAIT_S && nodes_for(n, FULL_PERCENT) > now)
        return now + 1;
    if (percent >= target && waited >= DOWN_WAIT_S && nodes_for(n, IDLE_PERCENT) < now)
        return now - 1;
    return now;
}

int64_t set_partitions(struct set_plan *p)
{
    const struct sampleset_autoscale *a = p->spec->autoscale;
    const struct set_numbers *n = &p->numbers;
    if (!a)
        return p->spec->partitions;
    struct scaled s = scaled_of(p);
    int64_t now = p->replicas ? p->replicas : p->spec->partitions, wanted = now;
    /* Half of the servers say nothing about all. */
    if (n->known && n->answered == (size_t)now && n->smallest > 0)
        wanted = strcmp(a->by, "HitRatio") == 0 ? by_hits(p, &s, now) : by_capacity(n, now);
    wanted = wanted < a->min ? a->min : wanted > a->max ? a->max : wanted;
    if (wanted != now && p->replicas) {
        free(p->scaled);
        p->scaled =
            xasprintf("%" PRId64 " %" PRId64 " %" PRId64, view_now(p->v), n->reads, n->local);
        act_event(p->out, false, "Scaled", "from %" PRId64 " partitions to %" PRId64 " by %s", now,
                  wanted, a->by);
    }
    bool short_ =
        n->known && n->smallest > 0 && nodes_for(n, FULL_PERCENT) > wanted && wanted == a->max;
    part_condition(&p->conditions, "Autoscaled", short_ ? "False" : "True",
                   short_ ? "AtMaximum" : "AsWanted",
                   short_ ? "the set needs more room than %" PRId64 " nodes have (raise "
                            "spec.autoscale.maxPartitions or the caches' sizes)"
                          : "%" PRId64 " partitions",
                   wanted);
    return wanted;
}

/* --- for people ------------------------------------------------------------------------------- */

static void size_member(struct json_writer *w, const char *key, int64_t bytes)
{
    char text[32];
    conf_format_size((uint64_t)(bytes > 0 ? bytes : 0), text);
    jw_str(w, key, text);
}

/* As they were: servers that do not answer now had an answer before. */
static void write_old(const struct set_plan *p, struct json_writer *w)
{
    static const char *const names[] = {"totalSize", "totalFiles", "cachedSize",   "diskSize",
                                        "diskUsed",  "diskAvail",  "diskUsageRate"};
    struct json old = json_get(&p->status, "cacheStatus");
    for (size_t i = 0; i < API_COUNT(names); i++)
        if (part_text(&old, names[i]))
            jw_str(w, names[i], part_text(&old, names[i]));
}

static void write_new(const struct set_numbers *n, struct json_writer *w)
{
    char text[32];
    if (n->known) {
        size_member(w, "totalSize", n->total);
        snprintf(text, sizeof text, "%" PRId64, n->files);
        jw_str(w, "totalFiles", text);
    }
    size_member(w, "cachedSize", n->cached);
    size_member(w, "diskSize", n->size);
    size_member(w, "diskUsed", n->used);
    size_member(w, "diskAvail", n->avail);
    snprintf(text, sizeof text, "%.1f%%",
             n->size > 0 ? 100.0 * (double)n->used / (double)n->size : 0.0);
    jw_str(w, "diskUsageRate", text);
}

void set_write_numbers(const struct set_plan *p, struct json_writer *w)
{
    const struct set_numbers *n = &p->numbers;
    jw_object(w, "cacheStatus");
    if (n->answered)
        write_new(n, w);
    else
        write_old(p, w);
    if (n->error)
        jw_str(w, "errorMassage", n->error);
    jw_end(w);
}

/* Of a mount that can be written: what `flush`, `stats`, `status` and `probe` say. */
#include "serve-internal.h"

#include "clock.h"

#define TELL_NS   (2 * NS_PER_S)
#define GIVE_UP_S 60 /* without anything having been stored */

/* What is pending, to a client who is waiting. */
static int tell_pending(struct request *r, struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    struct json_writer w;
    jw_init(&w, &text);
    jw_object(&w, NULL);
    jw_object(&w, "progress");
    stage_pending(r->stage, &w);
    jw_end(&w);
    jw_end(&w);
    return control_send(r->connection->sock, &text, -1, err);
}

/* Tries at once what failed before, and waits until nothing is owed: as long as something gets
 * stored, or else for a minute. */
int outputs_flush(struct request *r, struct err *err)
{
    bool torn;
    if (json_bool_or(&r->root, "torn", false, &torn, err))
        return -1;
    if (torn)
        stage_retry(r->stage);
    uint64_t seen = stage_done(r->stage), since = clock_mono_ns();
    for (;;) {
        struct err why = {0};
        uint64_t deadline = clock_mono_ns() + TELL_NS;
        if (stage_settle(r->stage, deadline, &why) == 0)
            return 0;
        uint64_t now = clock_mono_ns();
        if (stage_done(r->stage) != seen) {
            seen = stage_done(r->stage);
            since = now;
        }
        bool failed_for_good = now < deadline;
        if (failed_for_good || now - since > GIVE_UP_S * NS_PER_S ||
            server_stopping(r->connection->server)) {
            *err = why;
            return -1;
        }
        if (tell_pending(r, err))
            return -1; /* nobody waits any more */
    }
}

/* An engine of its own asks, as for samples (volume/probe.c): writers do not wait for it. */
int outputs_probe(struct request *r, struct err *err)
{
    struct store *store = r->connection->server->conf.store;
    struct fetch_conf conf;
    struct fetch *f;
    struct store_probe p;
    fetch_conf_defaults(&conf);
    probe_patience(&conf);
    conf.log = r->connection->server->conf.log;
    if (fetch_new(&f, &conf, err))
        return -1;
    jw_array(r->w, "sources");
    probe_store(f, store, &p);
    probe_write(r->w, store, &p);
    probe_release(&p);
    jw_end(r->w);
    fetch_free(f);
    return 0;
}

void control_outputs_counts(struct stage *s, struct fetch *f, struct json_writer *w)
{
    const struct stage_counts *n = stage_counts(s);
    const struct fetch_counts *c = fetch_counts(f);
    const struct {
        const char *name;
        uint64_t value;
    } reads[] = {{"total", counter_get(&n->reads)},
                 {"bytes", counter_get(&n->read_bytes)},
                 {"mem", 0},
                 {"disk", counter_get(&n->reads) - counter_get(&n->store_reads)},
                 {"peer", 0},
                 {"store", counter_get(&n->store_reads)},
                 {"pushed", 0},
                 {"errors", counter_get(&n->read_errors)},
                 {"corrupt_repaired", 0}},
      fetch[] = {{"requests", counter_get(&c->requests)},
                 {"bytes", counter_get(&c->bytes)},
                 {"retries", counter_get(&c->retries)},
                 {"hedges", counter_get(&c->hedges)},
                 {"failures", counter_get(&c->failures)},
                 {"mismatches", counter_get(&c->mismatches)},
                 {"in_flight", counter_get(&c->in_flight)},
                 {"in_flight_max", counter_get(&c->in_flight_max)},
                 {"queued_ahead", 0}},
      writes[] = {{"total", counter_get(&n->writes)},
                  {"bytes", counter_get(&n->written_bytes)},
                  {"fetched_bytes", counter_get(&n->fetched_bytes)},
                  {"uploads", counter_get(&n->uploads)},
                  {"uploaded_bytes", counter_get(&n->uploaded_bytes)},
                  {"upload_failures", counter_get(&n->upload_failures)},
                  {"deletes", counter_get(&n->deletes)},
                  {"copies", counter_get(&n->copies)},
                  {"lists", counter_get(&n->lists)}};
    jw_object(w, "reads");
    for (size_t i = 0; i < sizeof reads / sizeof reads[0]; i++)
        jw_uint(w, reads[i].name, reads[i].value);
    jw_num(w, "p50_us", (double)histogram_quantile_ns(&n->read_latency, 0.50) / 1e3);
    jw_num(w, "p99_us", (double)histogram_quantile_ns(&n->read_latency, 0.99) / 1e3);
    jw_end(w);
    jw_object(w, "fetch");
    for (size_t i = 0; i < sizeof fetch / sizeof fetch[0]; i++)
        jw_uint(w, fetch[i].name, fetch[i].value);
    jw_end(w);
    jw_object(w, "writes");
    for (size_t i = 0; i < sizeof writes / sizeof writes[0]; i++)
        jw_uint(w, writes[i].name, writes[i].value);
    jw_end(w);
}

void outputs_stats(struct request *r)
{
    jw_uint(r->w, "time_ns", clock_mono_ns());
    control_outputs_counts(r->stage, r->connection->server->conf.fetch, r->w);
    jw_object(r->w, "memory");
    jw_uint(r->w, "resident", process_resident());
    jw_end(r->w);
}

/* What a user sees of training. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buf.h"
#include "clock.h"
#include "conf.h"
#include "file.h"
#include "json.h"
#include "report.h"

#define LOG_MODULE "train"
#define DRAW_NS    (100 * NS_PER_MS)
#define BAR        24
#define LINE_MOST  4096 /* of train.jsonl */
#define ERASE_LINE "\r\033[K"

/* Half a line, as a full disk leaves one or a machine that dies, would spoil the one after it. */
static int cut_half_line(int fd)
{
    char tail[LINE_MOST];
    struct stat st;
    if (fstat(fd, &st))
        return -1;
    uint64_t from = (uint64_t)st.st_size > sizeof tail ? (uint64_t)st.st_size - sizeof tail : 0;
    ssize_t n = file_read(fd, tail, sizeof tail, from);
    if (n <= 0 || tail[n - 1] == '\n')
        return n < 0 ? -1 : 0;
    const char *end = memrchr(tail, '\n', (size_t)n);
    return end || from == 0 ? ftruncate(fd, (off_t)from + (end ? end + 1 - tail : 0)) : 0;
}

int report_open(struct report *r, const struct report_options *o, struct err *err)
{
    *r = (struct report){.o = *o,
                         .opened_ns = clock_mono_ns(),
                         .newest = {.loss = NAN, .accuracy = NAN},
                         .test = {.loss = NAN}};
    if (!o->jsonl)
        return 0;
    r->jsonl = fopen(o->jsonl, "a+e");
    if (!r->jsonl || cut_half_line(fileno(r->jsonl)))
        return err_sys(err, errno, "log: %s", o->jsonl);
    return 0;
}

static void figures_of(const struct report_sums *s, struct report_figures *ret)
{
    double n = s->samples ? (double)s->samples : 1, ns = s->step_ns ? (double)s->step_ns : 1;
    *ret = (struct report_figures){.loss = s->loss / n,
                                   .accuracy = s->right / n,
                                   .per_second = (double)(s->samples - s->old_samples) /
                                                 (ns / (double)NS_PER_S),
                                   .stall = (double)s->wait_ns / ns};
}

/* How long it took is not known. */
static struct report_sums of_earlier_runs(const struct report_sums *s)
{
    return (struct report_sums){.batches = s->batches,
                                .samples = s->samples,
                                .loss = s->loss,
                                .right = s->right,
                                .old_batches = s->batches,
                                .old_samples = s->samples};
}

void report_resume(struct report *r, uint64_t pass, const struct report_sums *done,
                   const struct report_sums *period)
{
    r->epoch = pass;
    r->pass = of_earlier_runs(done);
    if (period->batches == done->batches % r->o.log_period)
        r->period = of_earlier_runs(period);
    if (done->samples)
        figures_of(&r->pass, &r->newest);
}

static void add(struct report_sums *to, const struct report_step *s)
{
    to->batches++;
    to->samples += s->samples;
    to->wait_ns += s->wait_ns;
    to->step_ns += s->step_ns;
    to->loss += s->loss;
    to->right += s->right;
}

/* --- the terminal ----------------------------------------------------------------------------- */

void report_line(char *out, size_t size, const struct report_options *o,
                 const struct report_step *s, const struct report_figures *f, double eta_s)
{
    char bar[BAR + 1], eta[32];
    uint64_t all = s->pass_batches ? s->pass_batches : 1, done = s->batch < all ? s->batch : all;
    size_t full = (size_t)(done * BAR / all);
    memset(bar, ' ', BAR);
    memset(bar, '=', full);
    if (full < BAR)
        bar[full] = '>';
    bar[BAR] = '\0';
    conf_format_duration(eta_s, eta);
    snprintf(out, size,
             "[%s] %3d%%  pass %" PRIu64 "/%" PRIu64 "  loss %.4f  %.0f images/s  stall %.1f%%  "
             "%s left",
             bar, (int)(100 * done / all), s->pass + 1, o->passes, f->loss, f->per_second,
             100 * f->stall, eta);
}

static void draw(struct report *r, const struct report_step *s)
{
    char line[256];
    struct report_figures f;
    uint64_t now = clock_mono_ns();
    if (!r->o.line || (now - r->drawn_ns < DRAW_NS && s->batch < s->pass_batches))
        return;
    r->drawn_ns = now;
    figures_of(&r->pass, &f);
    double each = (double)r->pass.step_ns / (double)NS_PER_S /
                  (double)(r->pass.batches - r->pass.old_batches);
    double left = (double)(s->pass_batches > s->batch ? s->pass_batches - s->batch : 0) +
                  (double)(r->o.passes - s->pass - 1) * (double)s->pass_batches;
    report_line(line, sizeof line, &r->o, s, &f, each * left);
    fprintf(r->o.terminal, ERASE_LINE "%s", line);
    fflush(r->o.terminal);
    r->dirty = true;
}

void report_break(struct report *r)
{
    if (r->dirty)
        fprintf(r->o.terminal, r->o.line ? ERASE_LINE : "\n");
    r->dirty = false;
}

static void dot(struct report *r, const struct report_step *s)
{
    if (!r->o.terminal || r->o.line || r->o.dot_period == 0 || s->batch % r->o.dot_period)
        return;
    fputc('.', r->o.terminal);
    fflush(r->o.terminal);
    r->dirty = true;
}

/* --- lines ------------------------------------------------------------------------------------ */

/* A line at once, for whoever follows along. One that cannot be written ends the lines, not the
 * training. */
static void put_line(struct report *r, FILE **to, const char *name, const struct bytes *text)
{
    if (fprintf(*to, "%s\n", text->data) >= 0 && fflush(*to) == 0)
        return;
    if (r->o.log) {
        report_break(r);
        log_warn(r->o.log, "%s: %s: no more lines are written there", name, strerrordesc_np(errno));
    }
    *to = NULL;
}

static void put_jsonl(struct report *r, const struct bytes *text)
{
    FILE *file = r->jsonl;
    put_line(r, &r->jsonl, "train.jsonl", text);
    if (!r->jsonl)
        fclose(file);
}

static void json_line(struct report *r, const struct report_step *s, const struct report_figures *f)
{
    if (!r->jsonl)
        return;
    cleanup_bytes struct bytes text = {0};
    struct json_writer w;
    int64_t wall_ms = clock_wall_ns() / (int64_t)NS_PER_MS;
    jw_init(&w, &text);
    jw_object(&w, NULL);
    jw_num(&w, "time", (double)wall_ms / 1000);
    jw_uint(&w, "pass", s->pass);
    jw_uint(&w, "batch", s->batch);
    jw_uint(&w, "step", s->step);
    jw_float(&w, "loss", f->loss);
    jw_float(&w, "accuracy", f->accuracy);
    jw_float(&w, "learning_rate", s->rate);
    jw_float(&w, "samples_per_second", f->per_second);
    jw_float(&w, "stall", f->stall);
    jw_float(&w, "read_seconds", (double)s->read_ns / (double)NS_PER_S);
    jw_float(&w, "decode_seconds", (double)s->decode_ns / (double)NS_PER_S);
    jw_uint(&w, "from_packs", s->from_packs);
    jw_uint(&w, "from_mount", s->from_mount);
    jw_end(&w);
    put_jsonl(r, &text);
}

/* What begins every line of --json. Shares are told in percent there, passes as epochs. */
static void begin_event(struct json_writer *w, struct bytes *text, const char *event,
                        uint64_t epoch, uint64_t step, const struct report_figures *f)
{
    jw_init(w, text);
    jw_object(w, NULL);
    jw_str(w, "event", event);
    jw_uint(w, "epoch", epoch);
    jw_uint(w, "step", step);
    jw_float(w, "loss", f->loss);
    jw_float(w, "accuracy", f->accuracy);
    jw_num(w, "samples_per_s", f->per_second);
    jw_num(w, "stall_percent", 100 * f->stall);
}

static void end_event(struct report *r, struct json_writer *w, const struct bytes *text)
{
    jw_end(w);
    put_line(r, &r->o.json, "standard output", text);
}

void report_epoch(struct report *r, uint64_t pass, uint64_t step, const struct report_figures *f)
{
    cleanup_bytes struct bytes text = {0};
    struct json_writer w;
    if (r->o.json) {
        begin_event(&w, &text, "epoch", pass, step, f);
        if (isfinite(r->test.loss)) {
            jw_float(&w, "test_loss", r->test.loss);
            jw_float(&w, "test_accuracy", r->test.accuracy);
        }
        if (r->test.samples || r->test.skipped)
            jw_uint(&w, "test_skipped", r->test.skipped);
        jw_uint(&w, "samples", r->pass.samples);
        jw_uint(&w, "skipped", r->skipped);
        end_event(r, &w, &text);
    }
    r->test = (struct report_test){.loss = NAN};
    r->pass = r->period = (struct report_sums){0};
}

/* Loss and accuracy are those of the newest pass, the rest is over all. */
void report_end(struct report *r, uint64_t step, const char *state, const char *saved)
{
    cleanup_bytes struct bytes text = {0};
    struct json_writer w;
    struct report_figures f;
    if (!r->o.json)
        return;
    figures_of(&r->all, &f);
    f.loss = r->newest.loss;
    f.accuracy = r->newest.accuracy;
    begin_event(&w, &text, "summary", r->epoch, step, &f);
    jw_str(&w, "state", state);
    jw_uint(&w, "samples", r->all.samples);
    jw_uint(&w, "skipped", r->all_skipped);
    jw_num(&w, "seconds", (double)(clock_mono_ns() - r->opened_ns) / (double)NS_PER_S);
    jw_str(&w, "checkpoint", *saved ? saved : NULL);
    end_event(r, &w, &text);
}

bool report_step(struct report *r, const struct report_step *s, struct report_figures *ret)
{
    add(&r->period, s);
    add(&r->pass, s);
    add(&r->all, s);
    figures_of(&r->pass, &r->newest);
    r->epoch = s->pass;
    dot(r, s);
    draw(r, s);
    if (s->batch % r->o.log_period)
        return false;
    struct report_figures pass;
    figures_of(&r->period, ret);
    figures_of(&r->pass, &pass);
    r->period = (struct report_sums){0};
    if (r->o.log) {
        report_break(r);
        log_info(r->o.log,
                 "Pass=%" PRIu64 " Batch=%" PRIu64 " samples=%" PRIu64
                 " AvgCost=%.6g CurrentCost=%.6g Eval: error=%.6g images/s=%.1f stall=%.1f%%",
                 s->pass, s->batch, r->pass.samples, pass.loss, ret->loss, 1 - ret->accuracy,
                 ret->per_second, 100 * ret->stall);
    }
    json_line(r, s, ret);
    if (r->o.json) {
        cleanup_bytes struct bytes text = {0};
        struct json_writer w;
        begin_event(&w, &text, "step", s->pass, s->step, ret);
        end_event(r, &w, &text);
    }
    return true;
}

/* What a line says of samples that were left out: nothing, if none were. */
static const char *left_out(uint64_t skipped, char out[40])
{
    out[0] = '\0';
    if (skipped)
        snprintf(out, 40, " skipped=%" PRIu64, skipped);
    return out;
}

void report_pass(struct report *r, uint64_t pass, uint64_t skipped, struct report_figures *ret)
{
    char left[40];
    figures_of(&r->pass, ret);
    r->skipped = skipped;
    r->all_skipped += skipped;
    report_break(r);
    if (r->o.log)
        log_info(r->o.log,
                 "Pass=%" PRIu64 " done: Batch=%" PRIu64 " samples=%" PRIu64
                 " AvgCost=%.6g Eval: error=%.6g images/s=%.1f stall=%.1f%%%s",
                 pass, r->pass.batches, r->pass.samples, ret->loss, 1 - ret->accuracy,
                 ret->per_second, 100 * ret->stall, left_out(skipped, left));
}

void report_test(struct report *r, const struct report_test *t)
{
    char left[40];
    report_break(r);
    r->test = *t;
    if (t->samples == 0)
        return;
    if (r->o.log)
        log_info(r->o.log, "Test Pass=%" PRIu64 " samples=%" PRIu64 " cost=%.6g Eval: error=%.6g%s",
                 t->pass, t->samples, t->loss, 1 - t->accuracy, left_out(t->skipped, left));
    if (!r->jsonl)
        return;
    cleanup_bytes struct bytes text = {0};
    struct json_writer w;
    jw_init(&w, &text);
    jw_object(&w, NULL);
    jw_uint(&w, "pass", t->pass);
    jw_uint(&w, "step", t->step);
    jw_float(&w, "test_loss", t->loss);
    jw_float(&w, "test_accuracy", t->accuracy);
    jw_end(&w);
    put_jsonl(r, &text);
}

void report_close(struct report *r)
{
    report_break(r);
    if (r->jsonl)
        fclose(r->jsonl);
    r->jsonl = NULL;
}

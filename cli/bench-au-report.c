/* What bench au found: a table, JSON, a picture. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench-au-internal.h"
#include "mem.h"

#define FEW_STEPS 10

struct au_run *au_report_add(struct au_report *r)
{
    r->runs = xrealloc(r->runs, (r->n + 1) * sizeof *r->runs);
    return &r->runs[r->n++];
}

static double rate(double n, const struct au_run *run)
{
    return run->seconds > 0 ? n / run->seconds : 0;
}

static const char *mode(const struct au_run *run)
{
    return run->known ? "clairvoyant" : "blind";
}

static bool met(const struct au_report *r, const struct au_run *run)
{
    return !run->errors && run->au_min >= r->conf->model->min_au;
}

/* What is read before the clock starts weighs the more, the fewer steps there are. */
static bool has_few_steps(const struct au_report *r)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->runs[i].steps < (uint64_t)FEW_STEPS * r->conf->accelerators)
            return true;
    return false;
}

static void write_table(const struct au_report *r, struct bytes *out)
{
    const struct au_model *m = r->conf->model;
    bytes_addf(out,
               "%s: batches of %u, %g s each; AU >= %.0f %% is asked for; %u accelerator%s, %u "
               "reader%s each\n",
               m->title, m->batch, m->step_s, 100 * m->min_au, r->conf->accelerators,
               r->conf->accelerators == 1 ? "" : "s", r->conf->readers,
               r->conf->readers == 1 ? "" : "s");
    bytes_addf(out, "%-12s %6s %8s %8s %11s %9s %9s  %s\n", "order", "epoch", "AU", "worst",
               "samples/s", "MB/s", "first s", "folder");
    for (size_t i = 0; i < r->n; i++) {
        const struct au_run *run = &r->runs[i];
        add_one_line(out, "%-12s %6" PRIu64 " %6.2f %% %6.2f %% %11.1f %9.1f %9.3f  %s%s",
                     mode(run), run->epoch, 100 * run->au, 100 * run->au_min,
                     rate((double)run->samples, run), rate((double)run->bytes, run) / 1e6,
                     run->first_s, run->dir, met(r, run) ? "" : " (missed)");
    }
    if (has_few_steps(r))
        bytes_addf(out,
                   "fewer than %d steps an accelerator say little: the first batch, and what comes "
                   "while it is waited for, is not in the AU\n",
                   FEW_STEPS);
}

static void write_fraction(struct json_writer *w, const char *key, double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.5f", value);
    jw_raw(w, key, text);
}

static void write_json(const struct au_report *r, struct bytes *out)
{
    const struct au_model *m = r->conf->model;
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_str(&w, "model", m->name);
    jw_uint(&w, "batch", m->batch);
    write_seconds(&w, "step_s", m->step_s);
    write_fraction(&w, "min_au", m->min_au);
    jw_uint(&w, "accelerators", r->conf->accelerators);
    jw_uint(&w, "readers", r->conf->readers);
    jw_array(&w, "runs");
    for (size_t i = 0; i < r->n; i++) {
        const struct au_run *run = &r->runs[i];
        jw_object(&w, NULL);
        jw_str(&w, "dir", run->dir);
        jw_str(&w, "order", mode(run));
        jw_uint(&w, "epoch", run->epoch);
        write_fraction(&w, "au", run->au);
        write_fraction(&w, "au_worst", run->au_min);
        jw_bool(&w, "met", met(r, run));
        jw_uint(&w, "steps", run->steps);
        jw_uint(&w, "samples", run->samples);
        jw_uint(&w, "bytes", run->bytes);
        write_seconds(&w, "seconds", run->seconds);
        jw_num(&w, "samples_per_s", rate((double)run->samples, run));
        jw_num(&w, "bytes_per_s", rate((double)run->bytes, run));
        write_seconds(&w, "first_batch_s", run->first_s);
        jw_uint(&w, "errors", run->errors);
        jw_end(&w);
    }
    jw_end(&w);
    jw_end(&w);
    bytes_add_char(out, '\n');
}

/* --- the picture -------------------------------------------------------------------------------
 */

#define BAR   26 /* pixels a run */
#define LEFT  250
#define WIDTH 500

/* What XML cannot hold is left out, and bytes that are no UTF-8 are U+FFFD. */
static void add_escaped(struct bytes *out, const char *text)
{
    const unsigned char *p = (const unsigned char *)text, *end = p + strlen(text);
    for (size_t n; p < end; p += n ? n : 1) {
        n = utf8_len(p, (size_t)(end - p));
        if (n == 0 || (n == 3 && memcmp(p, "\xef\xbf", 2) == 0 && p[2] > 0xbd))
            bytes_add(out, "\xef\xbf\xbd", 3);
        else if (n > 1 || !strchr("<>&", *p))
            bytes_add(out, p, *p >= ' ' ? n : 0);
        else
            bytes_addf(out, "&#%d;", *p);
    }
}

/* The last so many letters of a text. */
static const char *tail(const char *text, size_t letters)
{
    const char *p = text + strlen(text);
    while (p > text && letters > 0)
        letters -= (*--p & 0xc0) != 0x80;
    return p;
}

static void add_bar(const struct au_report *r, size_t i, struct bytes *out)
{
    const struct au_run *run = &r->runs[i];
    size_t y = 50 + i * BAR;
    bytes_addf(out, "<text x=\"%d\" y=\"%zu\" text-anchor=\"end\">", LEFT - 8, y + 15);
    add_escaped(out, tail(run->dir, 26));
    bytes_addf(out, " %s</text><rect x=\"%d\" y=\"%zu\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>",
               mode(run), LEFT, y, WIDTH * run->au, BAR - 6, run->known ? "#2a7ab0" : "#8a8f98");
    bytes_addf(out, "<text x=\"%.1f\" y=\"%zu\">%.2f %%</text>\n", LEFT + WIDTH * run->au + 6,
               y + 15, 100 * run->au);
}

void au_report_svg(const struct au_report *r, struct bytes *out)
{
    const struct au_model *m = r->conf->model;
    size_t height = 50 + r->n * BAR + 24;
    double line = LEFT + WIDTH * m->min_au;
    bytes_addf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%zu\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
        "<text x=\"%d\" y=\"22\" font-size=\"15\">Accelerator utilisation: %s, %u of them</text>\n",
        LEFT + WIDTH + 90, height, LEFT, m->title, r->conf->accelerators);
    for (size_t i = 0; i < r->n; i++)
        add_bar(r, i, out);
    bytes_addf(out,
               "<line x1=\"%.1f\" y1=\"40\" x2=\"%.1f\" y2=\"%zu\" stroke=\"#c03030\" "
               "stroke-dasharray=\"4 3\"/>\n"
               "<text x=\"%.1f\" y=\"%zu\" text-anchor=\"middle\" fill=\"#c03030\">%.0f %% asked "
               "for</text>\n</svg>\n",
               line, line, height - 20, line, height - 6, 100 * m->min_au);
}

static int write_svg(const struct au_report *r, const char *file, struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    au_report_svg(r, &text);
    FILE *f = fopen(file, "we");
    if (!f)
        return err_sys(err, errno, "--svg: write %s", file);
    size_t n = fwrite(text.data, 1, text.len, f);
    if (fclose(f) || n != text.len)
        return err_sys(err, errno, "--svg: write %s", file);
    return 0;
}

int au_report_may_write(const struct bench_options *o, struct err *err)
{
    struct stat st;
    if (!o->svg)
        return 0;
    if (!*o->svg)
        return err_set(err, ERR_USAGE, "--svg: empty: want a file");
    const char *slash = strrchr(o->svg, '/');
    bool there = stat(o->svg, &st) == 0;
    if (there ? S_ISDIR(st.st_mode) : slash && !slash[1])
        return err_sys(err, EISDIR, "--svg: write %s", o->svg);
    cleanup_free char *folder =
        slash ? xstrndup(o->svg, (size_t)(slash - o->svg) + 1) : xstrdup(".");
    if (there ? access(o->svg, W_OK) : access(folder, W_OK | X_OK))
        return err_sys(err, errno, "--svg: write %s", o->svg);
    return 0;
}

int au_report_print(const struct au_report *r, const struct bench_options *o, struct err *err)
{
    cleanup_bytes struct bytes out = {0};
    if (o->json)
        write_json(r, &out);
    else
        write_table(r, &out);
    if (print_out(&out, err))
        return -1;
    return o->svg ? write_svg(r, o->svg, err) : 0;
}

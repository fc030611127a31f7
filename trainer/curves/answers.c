/* What is said of runs, as JSON. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "mem.h"
#include "runs-internal.h"

/* Of a run, which becomes *run. */
static const struct series *find_series(struct runs *r, const char *name, enum value_kind kind,
                                        const char *tag, struct run **run, struct err *err)
{
    *run = runs_find(r, name, err);
    const struct series *s = *run ? run_series(*run, kind, tag, strlen(tag)) : NULL;
    if (*run && !s)
        err_set(err, ERR_NOT_FOUND, "no tag of this name: %s", tag);
    return s;
}

/* --- lists ------------------------------------------------------------------------------------ */

static void list_tags(struct json_writer *w, const char *key, const struct run *run,
                      enum value_kind kind)
{
    jw_array(w, key);
    for (size_t i = 0; i < run->n_series; i++)
        if (run->series[i].kind == kind)
            jw_str(w, NULL, run->series[i].tag);
    jw_end(w);
}

static void list_run(struct json_writer *w, const struct run *run)
{
    char damage[400];
    const char *damaged = NULL;
    uint64_t bytes = 0;
    for (size_t i = 0; i < run->n_files; i++) {
        const struct event_file *f = &run->files[i];
        bytes += f->at;
        if (!f->damaged)
            continue;
        snprintf(damage, sizeof damage,
                 "%.300s is damaged at byte %" PRIu64 ", what follows is lost", f->name, f->at);
        damaged = damage;
    }
    jw_object(w, NULL);
    jw_str(w, "run", run->name);
    jw_uint(w, "bytes", bytes);
    jw_str(w, "damaged", damaged);
    list_tags(w, "scalars", run, VALUE_SCALAR);
    list_tags(w, "histograms", run, VALUE_HISTOGRAM);
    list_tags(w, "pr", run, VALUE_PR);
    list_tags(w, "images", run, VALUE_IMAGE);
    list_tags(w, "audio", run, VALUE_AUDIO);
    jw_bool(w, "graph", run->model || run_series(run, VALUE_GRAPH, "", 0));
    jw_end(w);
}

int runs_list(struct runs *r, struct bytes *out, struct err *err)
{
    struct json_writer w;
    ACQUIRE(&r->lock);
    if (runs_refresh(r, err))
        return -1;
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_array(&w, "runs");
    for (size_t i = 0; i < r->n; i++)
        list_run(&w, r->run[i]);
    jw_end(&w);
    jw_end(&w);
    return 0;
}

/* --- series ----------------------------------------------------------------------------------- */

/* Points of a series; the newest is one more where the stride has left it out. */
static size_t n_points(const struct series *s)
{
    return s->n + ((s->came - 1) % s->stride != 0);
}

static const struct point *point_at(const struct series *s, size_t i)
{
    return i < s->n ? &s->points[i] : &s->newest;
}

int runs_scalars(struct runs *r, const char *name, struct bytes *out, struct err *err)
{
    struct json_writer w;
    ACQUIRE(&r->lock);
    const struct run *run = runs_find(r, name, err);
    if (!run)
        return -1;
    jw_init(&w, out);
    jw_object(&w, NULL);
    for (size_t i = 0; i < run->n_series; i++) {
        const struct series *s = &run->series[i];
        if (s->kind != VALUE_SCALAR)
            continue;
        jw_array(&w, s->tag);
        for (size_t k = 0; k < n_points(s); k++) {
            const struct point *p = point_at(s, k);
            jw_array(&w, NULL);
            jw_int(&w, NULL, p->step);
            jw_num(&w, NULL, p->time);
            jw_float(&w, NULL, p->scalar);
            jw_end(&w);
        }
        jw_end(&w);
    }
    jw_end(&w);
    return 0;
}

/* The nth value of the record at a place, if it is still the point's. */
struct wanted {
    const struct series *series;
    const struct point *point;
    uint32_t nth;
    bool found;
    struct event_value value;
};

static bool take_nth(void *arg, const struct event_value *v)
{
    struct wanted *w = arg;
    const struct series *s = w->series;
    if (w->nth-- > 0)
        return true;
    w->found = v->kind == s->kind && v->step == w->point->step && v->tag_len == strlen(s->tag) &&
               memcmp(v->tag, s->tag, v->tag_len) == 0;
    w->value = *v;
    return false;
}

/* Reads what a point stands for again; its bytes lie in `record`. */
static int value_at(const struct runs *r, struct run *run, const struct series *s,
                    const struct point *p, struct bytes *record, struct event_value *ret,
                    struct err *err)
{
    const struct event_file *f = &run->files[p->place.file];
    cleanup_file FILE *file = NULL;
    struct wanted w = {.series = s, .point = p, .nth = p->place.nth};
    uint64_t at = p->place.at;
    if (run_open(r, run, f->name, &file, err))
        return -1;
    if (fseeko(file, (off_t)at, SEEK_SET) || record_next(file, f->format, &at, record) != 1 ||
        record_values(f->format, record->data, record->len, take_nth, &w) || !w.found) {
        run->replaced = true;
        return err_set(err, ERR_TRANSIENT, "%s is another file now: ask again", f->name);
    }
    *ret = w.value;
    return 0;
}

static void add_numbers(struct json_writer *w, const char *key, const double *x, size_t n)
{
    jw_array(w, key);
    for (size_t i = 0; i < n; i++)
        jw_float(w, NULL, x[i]);
    jw_end(w);
}

static void add_drawn(struct json_writer *w, const struct event_value *v)
{
    bool is_pr = v->kind == VALUE_PR;
    cleanup_drawn struct drawn d = {0};
    if (drawn_of(v, &d))
        return;
    jw_object(w, NULL);
    jw_int(w, "step", v->step);
    add_numbers(w, is_pr ? "recall" : "edges", d.x, d.n_x);
    add_numbers(w, is_pr ? "precision" : "counts", d.y, d.n);
    jw_end(w);
}

/* At most BARS_SHOWN of a tag, evenly, the newest among them. */
static int add_evenly(struct runs *r, const char *name, enum value_kind kind, const char *tag,
                      struct bytes *out, struct err *err)
{
    struct run *run;
    struct json_writer w;
    cleanup_bytes struct bytes record = {0};
    ACQUIRE(&r->lock);
    const struct series *s = find_series(r, name, kind, tag, &run, err);
    if (!s)
        return -1;
    size_t n = n_points(s), each = (n + BARS_SHOWN - 1) / BARS_SHOWN;
    jw_init(&w, out);
    jw_array(&w, NULL);
    for (size_t i = (n - 1) % each; i < n; i += each) {
        struct event_value v = {0};
        if (value_at(r, run, s, point_at(s, i), &record, &v, err))
            return -1;
        add_drawn(&w, &v);
    }
    jw_end(&w);
    return 0;
}

int runs_histograms(struct runs *r, const char *name, const char *tag, struct bytes *out,
                    struct err *err)
{
    return add_evenly(r, name, VALUE_HISTOGRAM, tag, out, err);
}

int runs_pr(struct runs *r, const char *name, const char *tag, struct bytes *out, struct err *err)
{
    return add_evenly(r, name, VALUE_PR, tag, out, err);
}

/* --- images and audio ------------------------------------------------------------------------- */

static char *place_of(const struct point *p)
{
    return xasprintf("%" PRIu32 "-%" PRIu64 "-%" PRIu32, p->place.file, p->place.at, p->place.nth);
}

static int list_places(struct runs *r, const char *name, enum value_kind kind, const char *tag,
                       struct bytes *out, struct err *err)
{
    struct run *run;
    struct json_writer w;
    ACQUIRE(&r->lock);
    const struct series *s = find_series(r, name, kind, tag, &run, err);
    if (!s)
        return -1;
    jw_init(&w, out);
    jw_array(&w, NULL);
    for (size_t i = 0; i < n_points(s); i++) {
        const struct point *p = point_at(s, i);
        cleanup_free char *place = place_of(p);
        jw_array(&w, NULL);
        jw_int(&w, NULL, p->step);
        jw_num(&w, NULL, p->time);
        jw_str(&w, NULL, place);
        jw_end(&w);
    }
    jw_end(&w);
    return 0;
}

int runs_images(struct runs *r, const char *name, const char *tag, struct bytes *out,
                struct err *err)
{
    return list_places(r, name, VALUE_IMAGE, tag, out, err);
}

int runs_audio(struct runs *r, const char *name, const char *tag, struct bytes *out,
               struct err *err)
{
    return list_places(r, name, VALUE_AUDIO, tag, out, err);
}

/* Pictures and sounds alone: nothing that a browser would take for a page. NULL: it is none. */
static const char *media_type(const struct event_value *v)
{
    static const struct {
        enum value_kind kind;
        const char *begin, *type;
    } types[] = {{VALUE_IMAGE, "\x89PNG", "image/png"}, {VALUE_IMAGE, "\xff\xd8\xff", "image/jpeg"},
                 {VALUE_IMAGE, "GIF8", "image/gif"},    {VALUE_AUDIO, "RIFF", "audio/wav"},
                 {VALUE_AUDIO, "OggS", "audio/ogg"},    {VALUE_AUDIO, "fLaC", "audio/flac"},
                 {VALUE_AUDIO, "ID3", "audio/mpeg"},    {VALUE_AUDIO, "\xff\xfb", "audio/mpeg"}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        size_t len = strlen(types[i].begin);
        if (v->kind == types[i].kind && v->len >= len && memcmp(v->data, types[i].begin, len) == 0)
            return types[i].type;
    }
    return NULL;
}

static int read_media(struct runs *r, const char *name, enum value_kind kind, const char *tag,
                      const char *place, struct bytes *out, const char **type, struct err *err)
{
    struct run *run;
    const struct point *p = NULL;
    struct event_value v = {0};
    cleanup_bytes struct bytes record = {0};
    ACQUIRE(&r->lock);
    const struct series *s = find_series(r, name, kind, tag, &run, err);
    if (run && run->anew)
        return err_set(err, ERR_TRANSIENT, "run %s was written over: ask again", name);
    if (!s)
        return -1;
    for (size_t i = 0; i < n_points(s) && !p; i++) {
        cleanup_free char *at = place_of(point_at(s, i));
        if (strcmp(at, place) == 0)
            p = point_at(s, i);
    }
    if (!p)
        return err_set(err, ERR_NOT_FOUND, "nothing is kept at this place: %s", place);
    if (value_at(r, run, s, p, &record, &v, err))
        return -1;
    *type = media_type(&v);
    if (!*type)
        return err_set(err, ERR_NOT_FOUND, "not a %s",
                       kind == VALUE_IMAGE ? "PNG, a JPEG or a GIF"
                                           : "WAV, an Ogg, a FLAC or an MP3");
    bytes_add(out, v.data, v.len);
    return 0;
}

int runs_image(struct runs *r, const char *name, const char *tag, const char *place,
               struct bytes *out, const char **type, struct err *err)
{
    return read_media(r, name, VALUE_IMAGE, tag, place, out, type, err);
}

int runs_clip(struct runs *r, const char *name, const char *tag, const char *place,
              struct bytes *out, const char **type, struct err *err)
{
    return read_media(r, name, VALUE_AUDIO, tag, place, out, type, err);
}

/* --- graphs ----------------------------------------------------------------------------------- */

/* The step that was measured last, under whatever name. */
static const struct series *newest_costs(const struct run *run)
{
    const struct series *found = NULL;
    for (size_t i = 0; i < run->n_series; i++) {
        const struct series *s = &run->series[i];
        if (s->kind == VALUE_COSTS && (!found || s->newest.time >= found->newest.time))
            found = s;
    }
    return found;
}

static int add_nodes(const struct runs *r, struct run *run, struct json_writer *w, struct err *err)
{
    struct event_value v = {0};
    cleanup_bytes struct bytes record = {0};
    cleanup_file FILE *f = NULL;
    const struct series *s = run_series(run, VALUE_GRAPH, "", 0);
    if (s)
        return value_at(r, run, s, &s->newest, &record, &v, err)
                   ? -1
                   : graph_answer(v.data, v.len, w, err);
    if (!run->model)
        return err_set(err, ERR_NOT_FOUND, "the run has no graph");
    return run_open(r, run, run->model, &f, err) ? -1 : model_answer(f, w, err);
}

static int add_costs(const struct runs *r, struct run *run, struct json_writer *w, struct err *err)
{
    struct event_value v = {0};
    cleanup_bytes struct bytes record = {0};
    const struct series *s = newest_costs(run);
    if (!s)
        return 0;
    return value_at(r, run, s, &s->newest, &record, &v, err) ? -1 : costs_answer(&v, w, err);
}

int runs_graph(struct runs *r, const char *name, struct bytes *out, struct err *err)
{
    struct json_writer w;
    ACQUIRE(&r->lock);
    struct run *run = runs_find(r, name, err);
    if (!run)
        return -1;
    jw_init(&w, out);
    jw_object(&w, NULL);
    if (add_nodes(r, run, &w, err) || add_costs(r, run, &w, err))
        return -1;
    jw_end(&w);
    return 0;
}

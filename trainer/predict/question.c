/* Requests and answers of a predictor, as bytes. */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "json.h"
#include "loader.h"
#include "mem.h"
#include "predict-internal.h"

#define INSTANCES_MAX 1024

/* --- pictures --------------------------------------------------------------------------------- */

static struct loader_options as_tested(const struct predictor *p)
{
    struct loader_options o;
    loader_options_init(&o);
    o.crop = LOADER_CROP_CENTRE;
    o.height = (uint32_t)p->about.shape.h;
    o.width = (uint32_t)p->about.shape.w;
    return o;
}

static int take_picture(const struct predictor *p, const void *body, size_t len, float *to,
                        struct err *err)
{
    struct loader_options o = as_tested(p);
    return loader_picture(&o, body, len, to, err) ? err_wrap(err, "the picture") : 0;
}

static int take_row(const struct predictor *p, const struct json *row, float *to, struct err *err)
{
    const struct loader_options o = as_tested(p);
    size_t n = predictor_floats(p);
    if (json_want_array(row, err))
        return -1;
    if (json_count(row) != n)
        return err_set(err, ERR_USAGE,
                       "want %zu integers in one array (%d rows of %d pixels of red, green, blue)",
                       n, p->about.shape.h, p->about.shape.w);
    for (size_t i = 0; i < n; i++) {
        struct json one = json_at(row, i);
        int64_t value;
        if (json_as_int(&one, 0, 255, &value, err))
            return -1;
        to[i] = ((float)value / 255 - o.mean[i % 3]) / o.std[i % 3];
    }
    return 0;
}

/* --- ratings ---------------------------------------------------------------------------------- */

/* A model of other data than MovieLens' (synthetic:) knows fewer ages, jobs and words. */
static int check_rows(const struct predictor *p, int32_t *const *ids, size_t at, struct err *err)
{
    static const char *const names[N_MOVIE_IDS] = {"user",  "gender", "age",  "job",
                                                   "movie", "genres", "title"};
    for (int i = 0; i < N_MOVIE_IDS; i++) {
        size_t width = (size_t)net_ids_width(p->n, i);
        int rows = p->about.shape.rows[i];
        for (size_t k = at * width; k < (at + 1) * width; k++)
            if (ids[i][k] >= rows)
                return err_set(err, ERR_USAGE,
                               "%s: row %d of a table that has %d (was the model made of "
                               "MovieLens' files?)",
                               names[i], ids[i][k], rows);
    }
    return 0;
}

/* MovieLens' own fields; the last three may be left out. */
static int take_rating(const struct predictor *p, const struct json *one, int32_t *const *ids,
                       size_t at, struct err *err)
{
    static const char *const keys[] = {"user", "movie", "gender", "age",
                                       "job",  "title", "genres", NULL};
    const int *rows = p->about.shape.rows;
    const char *gender, *title, *genres;
    int64_t user, movie, age, job;
    if (json_want_object(one, err) || json_only_keys(one, keys, err) ||
        json_int(one, "user", 0, rows[MOVIE_USER] - 1, &user, err) ||
        json_int(one, "movie", 0, rows[MOVIE_ID] - 1, &movie, err) ||
        json_str(one, "gender", &gender, err) || json_int(one, "age", 0, 200, &age, err) ||
        json_int_or(one, "job", 0, INT32_MAX, 0, &job, err) ||
        json_str_or(one, "title", "", &title, err) || json_str_or(one, "genres", "", &genres, err))
        return -1;
    if (strcmp(gender, "F") != 0 && strcmp(gender, "M") != 0)
        return err_set(err, ERR_USAGE, "gender: want F or M");
    cleanup_free char *title_words = xstrdup(title), *genre_words = xstrdup(genres);
    const struct rating_fields f = {.user = (int32_t)user,
                                    .movie = (int32_t)movie,
                                    .age = (int32_t)age,
                                    .job = (int32_t)job,
                                    .female = *gender == 'F',
                                    .title = title_words,
                                    .genres = genre_words};
    rating_ids(&f, ids, at);
    return check_rows(p, ids, at, err);
}

/* --- what is asked ---------------------------------------------------------------------------- */

/* The inputs of one request. */
struct inputs {
    struct net_batch batch;
    float *x;
    int32_t *ids[NET_IDS];
};

static void inputs_release(struct inputs *in)
{
    free(in->x);
    for (int i = 0; i < NET_IDS; i++)
        free(in->ids[i]);
}
#define cleanup_inputs CLEANUP(inputs_release)

static void inputs_make(const struct predictor *p, struct inputs *in, size_t n)
{
    in->batch.n = n;
    if (p->kind == MODEL_PICTURES)
        in->batch.x = in->x = xcalloc(n * predictor_floats(p), sizeof *in->x);
    for (int i = 0; i < net_n_ids(p->n); i++)
        in->batch.ids[i] = in->ids[i] =
            xcalloc(n * (size_t)net_ids_width(p->n, i), sizeof *in->ids[i]);
}

static int take_instances(const struct predictor *p, const void *body, size_t len,
                          struct inputs *in, struct err *err)
{
    static const char *const keys[] = {"instances", NULL};
    cleanup_json struct json_doc *doc = NULL;
    if (json_parse(&doc, "request", body, len, err))
        return -1;
    struct json root = json_root(doc), rows = json_get(&root, "instances");
    if (json_want_object(&root, err) || json_only_keys(&root, keys, err) ||
        json_want_array(&rows, err))
        return -1;
    size_t n = json_count(&rows);
    if (n == 0 || n > INSTANCES_MAX)
        return err_set(err, ERR_USAGE, "instances: %zu of them: want 1 to %d", n, INSTANCES_MAX);
    inputs_make(p, in, n);
    for (size_t i = 0; i < n; i++) {
        struct json row = json_at(&rows, i);
        if (p->kind == MODEL_PICTURES ? take_row(p, &row, in->x + i * predictor_floats(p), err)
                                      : take_rating(p, &row, in->ids, i, err))
            return err_wrap(err, "instances[%zu]", i);
    }
    return 0;
}

/* Media types are the same in either case, and may have parameters. */
static bool is_type(const char *type, const char *want)
{
    size_t n = strlen(want);
    return strncasecmp(type, want, n) == 0 && (!type[n] || strchr("; \t", type[n]));
}

static int take_request(const struct predictor *p, const char *type, const void *body, size_t len,
                        struct inputs *in, struct err *err)
{
    if (is_type(type, "application/json"))
        return take_instances(p, body, len, in, err);
    bool picture = is_type(type, "image/jpeg") || is_type(type, "image/png");
    if (!picture || p->kind != MODEL_PICTURES)
        return err_set(err, ERR_USAGE, "Content-Type: %.60s: want application/json%s",
                       *type ? type : "(none)",
                       p->kind == MODEL_PICTURES ? ", image/jpeg or image/png" : "");
    inputs_make(p, in, 1);
    return take_picture(p, body, len, in->x, err);
}

/* --- what is answered ------------------------------------------------------------------------- */

static void put_float(struct json_writer *w, const char *key, double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.7g", value);
    jw_raw(w, key, isfinite(value) ? text : "null");
}

/* In place: each between 0 and 1, together 1. */
static void softmax(float *x, size_t n)
{
    float most = x[0], sum = 0;
    for (size_t i = 1; i < n; i++)
        most = x[i] > most ? x[i] : most;
    for (size_t i = 0; i < n; i++)
        sum += x[i] = expf(x[i] - most);
    for (size_t i = 0; i < n; i++)
        x[i] /= sum;
}

static void put_scores(const struct predictor *p, float *scores, size_t n, struct json_writer *w)
{
    size_t best = 0;
    softmax(scores, n);
    for (size_t i = 1; i < n; i++)
        best = scores[i] > scores[best] ? i : best;
    jw_object(w, NULL);
    jw_uint(w, "label", best);
    jw_str(w, "class", best < p->about.n_classes ? p->about.classes[best] : NULL);
    put_float(w, "score", scores[best]);
    jw_array(w, "scores");
    for (size_t i = 0; i < n; i++)
        put_float(w, NULL, scores[i]);
    jw_end(w);
    jw_end(w);
}

int question_answer(struct predictor *p, const char *type, const void *body, size_t len,
                    struct bytes *out, struct err *err)
{
    cleanup_inputs struct inputs in = {0};
    struct json_writer w;
    if (take_request(p, type, body, len, &in, err)) {
        if (err)
            err->class = ERR_USAGE; /* whatever is wrong with it: it is the request's */
        return -1;
    }
    size_t n = predictor_outputs(p);
    cleanup_free float *results = xcalloc(in.batch.n * n, sizeof *results);
    if (predictor_run(p, &in.batch, results, err))
        return -1;
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_array(&w, "predictions");
    for (size_t i = 0; i < in.batch.n; i++) {
        if (p->kind == MODEL_PICTURES) {
            put_scores(p, results + i * n, n, &w);
            continue;
        }
        jw_object(&w, NULL);
        put_float(&w, "rating", results[i * n]);
        jw_end(&w);
    }
    jw_end(&w);
    jw_end(&w);
    return 0;
}

void question_about(const struct predictor *p, struct bytes *out)
{
    const struct model_shape *s = &p->about.shape;
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_str(&w, "model", p->about.model);
    jw_str(&w, "checkpoint", p->place);
    if (p->kind == MODEL_PICTURES) {
        jw_int(&w, "height", s->h);
        jw_int(&w, "width", s->w);
    }
    jw_array(&w, "classes");
    for (size_t i = 0; i < p->about.n_classes; i++)
        jw_str(&w, NULL, p->about.classes[i]);
    jw_end(&w);
    jw_end(&w);
}

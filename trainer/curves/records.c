/* Records of event files. */
#include "records.h"

#include <math.h>
#include <string.h>

#include "crc.h"
#include "mem.h"
#include "protobuf.h"

#define DT_FLOAT  1
#define DT_DOUBLE 2
#define PR_ROWS   6

enum event_format event_format_of(const char *name)
{
    return strstr(name, "tfevents")     ? EVENTS_TENSORBOARD
           : strstr(name, "vdlrecords") ? EVENTS_VISUALDL
                                        : EVENTS_FORMATS;
}

int record_next(FILE *f, enum event_format format, uint64_t *at, struct bytes *ret)
{
    bool sums = format == EVENTS_TENSORBOARD;
    size_t head_len = sums ? 12 : 8, tail_len = sums ? 4 : 0;
    char head[12];
    bytes_clear(ret);
    if (fread(head, 1, head_len, f) < head_len)
        return 0;
    uint64_t len = pb_fixed_at(head, 8);
    if ((sums && pb_fixed_at(head + 8, 4) != crc32c_masked(head, 8)) || len > RECORD_MAX)
        return -1;
    bytes_reserve(ret, (size_t)len + tail_len);
    if (fread(ret->data, 1, (size_t)len + tail_len, f) < len + tail_len)
        return 0;
    if (sums && pb_fixed_at(ret->data + len, 4) != crc32c_masked(ret->data, (size_t)len))
        return -1;
    ret->len = (size_t)len;
    *at += head_len + len + tail_len;
    return 1;
}

/* --- numbers ---------------------------------------------------------------------------------- */

static double double_at(const char *p)
{
    uint64_t bits = pb_fixed_at(p, 8);
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static double float_at(const char *p)
{
    uint32_t bits = (uint32_t)pb_fixed_at(p, 4);
    float x;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

static double number_at(const char *p, size_t width)
{
    return width == 4 ? float_at(p) : double_at(p);
}

/* --- values ----------------------------------------------------------------------------------- */

static bool text_is(const struct pb_field *f, const char *text)
{
    return f->len == strlen(text) && memcmp(f->data, text, f->len) == 0;
}

static void set_bytes(struct event_value *v, enum value_kind kind, const struct pb_field *f)
{
    v->kind = kind;
    v->data = f->data;
    v->len = f->len;
}

static void set_scalar(struct event_value *v, double x)
{
    v->kind = VALUE_SCALAR;
    v->scalar = x;
}

/* Of a tensor of strings this one. */
static bool string_of(const struct pb_field *tensor, size_t nth, enum value_kind kind,
                      struct event_value *v)
{
    const char *data = tensor->data;
    size_t len = tensor->len, n = 0;
    struct pb_field f;
    while (pb_next(&data, &len, &f) == 1)
        if (f.number == 8 && f.type == 2 && n++ == nth) {
            set_bytes(v, kind, &f);
            return true;
        }
    return false;
}

/* The forms that TensorFlow 2 writes: a tensor, and the name of the plugin that knows what it is.
 */
static bool take_tensor(const struct pb_field *tensor, const struct pb_field *metadata,
                        struct event_value *v)
{
    struct pb_field plugin, name, f, numbers = {0};
    uint64_t type = 0;
    if (!pb_part(metadata->data, metadata->len, 1, &plugin) ||
        !pb_part(plugin.data, plugin.len, 1, &name))
        return false;
    if (text_is(&name, "images")) /* width, height, pictures … */
        return string_of(tensor, 2, VALUE_IMAGE, v);
    if (text_is(&name, "audio")) /* sounds and their labels by turns */
        return string_of(tensor, 0, VALUE_AUDIO, v);
    const char *data = tensor->data;
    size_t len = tensor->len;
    while (pb_next(&data, &len, &f) == 1) {
        if (f.number == 1 && f.type == 0)
            type = f.value;
        else if ((f.number >= 4 && f.number <= 6 && f.type == 2) ||
                 (f.number == 5 && f.type == 5) || (f.number == 6 && f.type == 1))
            numbers = f;
    }
    if ((type != DT_FLOAT && type != DT_DOUBLE) || !numbers.data)
        return false;
    size_t width = type == DT_FLOAT ? 4 : 8;
    if (text_is(&name, "scalars") && numbers.len >= width) {
        set_scalar(v, number_at(numbers.data, width));
        return true;
    }
    bool pr = text_is(&name, "pr_curves");
    set_bytes(v, pr ? VALUE_PR : VALUE_HISTOGRAM, &numbers);
    v->form = type == DT_FLOAT ? FORM_FLOATS : FORM_DOUBLES;
    return pr || text_is(&name, "histograms");
}

/* One Value of a Summary. 1; 0: of no kind that is shown; -1: no such message. */
static int tensorboard_value(const struct pb_field *value, struct event_value *v)
{
    const char *data = value->data;
    size_t len = value->len;
    struct pb_field f, part, tensor = {0}, metadata = {0};
    int got, found = 0;
    while ((got = pb_next(&data, &len, &f)) == 1) {
        if (f.number == 1 && f.type == 2) {
            v->tag = f.data;
            v->tag_len = f.len;
        } else if (f.number == 2 && f.type == 5) {
            set_scalar(v, float_at(f.data));
            found = 1;
        } else if ((f.number == 4 || f.number == 6) && f.type == 2 &&
                   pb_part(f.data, f.len, 4, &part)) {
            set_bytes(v, f.number == 4 ? VALUE_IMAGE : VALUE_AUDIO, &part);
            found = 1;
        } else if (f.number == 5 && f.type == 2) {
            set_bytes(v, VALUE_HISTOGRAM, &f);
            v->form = FORM_LIMITS;
            found = 1;
        } else if (f.number == 8 && f.type == 2) {
            tensor = f;
        } else if (f.number == 9 && f.type == 2) {
            metadata = f;
        }
    }
    if (!found && tensor.data && metadata.data)
        found = take_tensor(&tensor, &metadata, v);
    return got < 0 ? -1 : found;
}

/* The values in the message's fields 1; what `common` says holds of all. */
static int each_value(const char *data, size_t len,
                      int (*value)(const struct pb_field *field, struct event_value *v),
                      const struct event_value *common,
                      bool (*take)(void *arg, const struct event_value *v), void *arg)
{
    struct pb_field f;
    int got;
    while ((got = pb_next(&data, &len, &f)) == 1) {
        struct event_value v = *common;
        int found = f.number == 1 && f.type == 2 ? value(&f, &v) : 0;
        if (found < 0)
            return -1;
        if (found && !take(arg, &v))
            return 0;
    }
    return got;
}

static int tensorboard_values(const char *data, size_t len,
                              bool (*take)(void *arg, const struct event_value *v), void *arg)
{
    struct pb_field f, summary = {0}, part, tag = {0};
    struct event_value event = {.tag = ""};
    int got;
    while ((got = pb_next(&data, &len, &f)) == 1) {
        if (f.number == 1 && f.type == 1) {
            event.time = double_at(f.data);
        } else if (f.number == 2 && f.type == 0) {
            event.step = (int64_t)f.value;
        } else if (f.number == 4 && f.type == 2) {
            set_bytes(&event, VALUE_GRAPH, &f);
        } else if (f.number == 5 && f.type == 2) {
            summary = f;
        } else if (f.number == 8 && f.type == 2 && pb_part(f.data, f.len, 2, &part)) {
            set_bytes(&event, VALUE_COSTS, &part);
            pb_part(f.data, f.len, 1, &tag);
        }
    }
    if (got < 0)
        return -1;
    if (event.kind == VALUE_COSTS && tag.data) {
        event.tag = tag.data;
        event.tag_len = tag.len;
    }
    if (event.data && !take(arg, &event))
        return 0;
    const struct event_value common = {.step = event.step, .time = event.time, .tag = ""};
    return each_value(summary.data, summary.len, tensorboard_value, &common, take, arg);
}

static int visualdl_value(const struct pb_field *value, struct event_value *v)
{
    const char *data = value->data;
    size_t len = value->len;
    struct pb_field f, part;
    int got, found = 0;
    while ((got = pb_next(&data, &len, &f)) == 1) {
        if (f.number == 1 && f.type == 0) {
            v->step = (int64_t)f.value;
        } else if (f.number == 2 && f.type == 2) {
            v->tag = f.data;
            v->tag_len = f.len;
        } else if (f.number == 3 && f.type == 0) {
            v->time = (double)f.value / 1000;
        } else if (f.number == 4 && f.type == 5) {
            set_scalar(v, float_at(f.data));
            found = 1;
        } else if ((f.number == 5 || f.number == 6) && f.type == 2 &&
                   pb_part(f.data, f.len, 4, &part)) {
            set_bytes(v, f.number == 5 ? VALUE_IMAGE : VALUE_AUDIO, &part);
            found = 1;
        } else if (f.number == 8 && f.type == 2) {
            set_bytes(v, VALUE_HISTOGRAM, &f);
            v->form = FORM_EDGES;
            found = 1;
        } else if (f.number == 9 && f.type == 2) {
            set_bytes(v, VALUE_PR, &f);
            v->form = FORM_EDGES;
            found = 1;
        }
    }
    return got < 0 ? -1 : found;
}

int record_values(enum event_format format, const char *data, size_t len,
                  bool (*take)(void *arg, const struct event_value *v), void *arg)
{
    static const struct event_value common = {.tag = ""};
    return format == EVENTS_TENSORBOARD ? tensorboard_values(data, len, take, arg)
                                        : each_value(data, len, visualdl_value, &common, take, arg);
}

/* --- histograms ------------------------------------------------------------------------------- */

/* Numbers of eight bytes that lie packed. */
static double *doubles_of(const struct pb_field *f, size_t *n)
{
    *n = f->len / 8;
    double *ret = xcalloc(*n + 1, sizeof *ret);
    for (size_t i = 0; i < *n; i++)
        ret[i] = double_at(f->data + 8 * i);
    return ret;
}

/* Rows of left end, right end and count. */
static int bars_of_rows(const struct event_value *v, size_t width, struct drawn *ret)
{
    ret->n = v->len / (3 * width);
    ret->n_x = ret->n + 1;
    ret->x = xcalloc(ret->n_x, sizeof *ret->x);
    ret->y = xcalloc(ret->n_x, sizeof *ret->y);
    for (size_t i = 0; i < ret->n; i++) {
        const char *row = v->data + 3 * width * i;
        if (i == 0)
            ret->x[0] = number_at(row, width);
        ret->x[i + 1] = number_at(row + width, width);
        ret->y[i] = number_at(row + 2 * width, width);
    }
    return 0;
}

/* TensorBoard names upper ends alone, and its writers' first and last are far out (1e308): what
 * holds nothing there is cut off, and bars begin and end where the values do. */
static void cut_empty_ends(struct drawn *d, double min, double max)
{
    size_t first = 0, end = d->n;
    while (first < end && d->y[first] == 0)
        first++;
    while (end > first && d->y[end - 1] == 0)
        end--;
    d->n = end - first;
    d->n_x = d->n + 1;
    memmove(d->x, d->x + first, d->n_x * sizeof *d->x);
    memmove(d->y, d->y + first, d->n * sizeof *d->y);
    if (d->n > 0 && min > d->x[0] && min < d->x[1])
        d->x[0] = min;
    if (d->n > 0 && max < d->x[d->n] && max > d->x[d->n - 1])
        d->x[d->n] = max;
}

static int bars_of_message(const struct event_value *v, struct drawn *ret)
{
    bool limits = v->form == FORM_LIMITS;
    struct pb_field edges = {0}, counts = {0}, f;
    const char *data = v->data;
    size_t len = v->len;
    double ends[2] = {0};
    while (limits && pb_next(&data, &len, &f) == 1)
        if (f.type == 1 && (f.number == 1 || f.number == 2))
            ends[f.number - 1] = double_at(f.data);
    if (!pb_part(v->data, v->len, limits ? 6 : 2, &edges) ||
        !pb_part(v->data, v->len, limits ? 7 : 1, &counts))
        return -1;
    ret->y = doubles_of(&counts, &ret->n);
    ret->x = doubles_of(&edges, &ret->n_x);
    if (ret->n == 0 || ret->n_x != ret->n + (limits ? 0 : 1))
        return -1;
    if (limits) {
        ret->x = xrealloc(ret->x, (ret->n_x + 1) * sizeof *ret->x);
        memmove(ret->x + 1, ret->x, ret->n_x * sizeof *ret->x);
        ret->x[0] = fmin(ends[0], ret->x[1]);
        cut_empty_ends(ret, ends[0], ends[1]);
    }
    return 0;
}

/* --- precision and recall --------------------------------------------------------------------- */

/* The last two of six rows: true and false positives, true and false negatives, both shares. */
static int pr_of_rows(const struct event_value *v, size_t width, struct drawn *ret)
{
    ret->n = ret->n_x = v->len / (PR_ROWS * width);
    ret->y = xcalloc(ret->n + 1, sizeof *ret->y);
    ret->x = xcalloc(ret->n + 1, sizeof *ret->x);
    for (size_t i = 0; i < ret->n; i++) {
        ret->y[i] = number_at(v->data + ((PR_ROWS - 2) * ret->n + i) * width, width);
        ret->x[i] = number_at(v->data + ((PR_ROWS - 1) * ret->n + i) * width, width);
    }
    return ret->n ? 0 : -1;
}

static int pr_of_message(const struct event_value *v, struct drawn *ret)
{
    struct pb_field precision, recall;
    pb_part(v->data, v->len, 5, &precision);
    pb_part(v->data, v->len, 6, &recall);
    ret->y = doubles_of(&precision, &ret->n);
    ret->x = doubles_of(&recall, &ret->n_x);
    return ret->n && ret->n_x == ret->n ? 0 : -1;
}

/* --- both ------------------------------------------------------------------------------------- */

static bool all_finite(const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

int drawn_of(const struct event_value *v, struct drawn *ret)
{
    bool is_pr = v->kind == VALUE_PR;
    size_t width = v->form == FORM_FLOATS ? 4 : 8;
    *ret = (struct drawn){0};
    if (v->len > DRAWN_BYTES)
        return -1;
    int result = v->form == FORM_DOUBLES || v->form == FORM_FLOATS
                     ? (is_pr ? pr_of_rows : bars_of_rows)(v, width, ret)
                     : (is_pr ? pr_of_message : bars_of_message)(v, ret);
    if (result == 0 && all_finite(ret->x, ret->n_x) && all_finite(ret->y, ret->n))
        return 0;
    drawn_release(ret);
    return -1;
}

void drawn_release(struct drawn *d)
{
    free(d->x);
    free(d->y);
    *d = (struct drawn){0};
}

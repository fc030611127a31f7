/* Files of events: each record whole or not at all, and what all their writers mean by one. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "curves-testing.h"

static struct {
    int n;
    struct event_value last;
    char tag[64], data[64];
} seen;

static bool see(void *arg, const struct event_value *v)
{
    (void)arg;
    seen.n++;
    seen.last = *v;
    snprintf(seen.tag, sizeof seen.tag, "%.*s", (int)v->tag_len, v->tag);
    snprintf(seen.data, sizeof seen.data, "%.*s", (int)v->len, v->len ? v->data : "");
    return true;
}

static int values_of(enum event_format format, const struct bytes *record)
{
    memset(&seen, 0, sizeof seen);
    return record_values(format, record->data, record->len, see, NULL);
}

/* What record_next() says of these bytes as a file, one record after the other. */
static int records_in(enum event_format format, const char *data, size_t len, int *last)
{
    cleanup_bytes struct bytes record = {0};
    uint64_t at = 0;
    int n = 0;
    FILE *f = fmemopen((void *)(uintptr_t)data, len, "r");
    while ((*last = record_next(f, format, &at, &record)) == 1)
        n++;
    fclose(f);
    return n;
}

Test(records, whole_or_not_at_all)
{
    for (int format = 0; format < EVENTS_FORMATS; format++) {
        struct bytes file = {0};
        int last;
        add_scalar(&file, format, 1, "a/b", 2);
        size_t one = file.len;
        add_scalar(&file, format, 2, "a/b", 3);
        for (size_t n = 1; n <= file.len; n++) {
            int got = records_in(format, file.data, n, &last);
            cr_expect_eq(got, n == file.len ? 2 : n >= one, "format %d, %zu bytes: %d", format, n,
                         got);
            cr_expect_eq(last, 0, "format %d, %zu bytes: may grow", format, n);
        }
        for (size_t n = 0; n < one && format == EVENTS_TENSORBOARD; n++) {
            file.data[n] ^= 1;
            cr_expect_eq(records_in(format, file.data, file.len, &last), 0, "byte %zu", n);
            cr_expect_eq(last, -1, "byte %zu", n);
            file.data[n] ^= 1;
        }
        bytes_release(&file);
    }
    static const char endless[] = "\xff\xff\xff\xff\xff\xff\xff\x7f what is no length";
    int last;
    records_in(EVENTS_VISUALDL, endless, sizeof endless, &last);
    cr_expect_eq(last, -1, "longer than any record");
}

Test(records, scalars)
{
    struct bytes record = {0}, value = {0}, tensor = {0};
    scalar_record(&record, EVENTS_TENSORBOARD, 7, "a/b", 1.5);
    cr_assert_eq(values_of(EVENTS_TENSORBOARD, &record), 0);
    cr_expect(seen.n == 1 && seen.last.kind == VALUE_SCALAR && seen.last.step == 7 &&
              seen.last.scalar == 1.5 && seen.last.time == T0);
    cr_expect_str_eq(seen.tag, "a/b");
    bytes_clear(&record);
    scalar_record(&record, EVENTS_VISUALDL, 7, "a/b", 1.5);
    cr_assert_eq(values_of(EVENTS_VISUALDL, &record), 0);
    cr_expect(seen.n == 1 && seen.last.step == 7 && seen.last.scalar == 1.5 &&
              seen.last.time == T0);

    /* TensorFlow 2: a tensor of one number, in each of the three places where it may lie. */
    for (int place = 0; place < 3; place++) {
        bytes_clear(&record);
        bytes_clear(&value);
        bytes_clear(&tensor);
        pb_varint(&tensor, 1, place == 2 ? 2 : 1);
        if (place == 0)
            pb_bytes(&tensor, 4, "\0\0\x40\x40", 4);
        else if (place == 1)
            pb_float(&tensor, 5, 3);
        else
            pb_doubles(&tensor, 6, (double[]){3}, 1);
        tensor_value(&value, "x", "scalars", &tensor);
        event_record(&record, 9, &value);
        cr_assert_eq(values_of(EVENTS_TENSORBOARD, &record), 0);
        cr_expect(seen.n == 1 && seen.last.kind == VALUE_SCALAR && seen.last.scalar == 3,
                  "place %d", place);
    }
    /* Of another plugin: of no kind that is shown. */
    bytes_clear(&record);
    bytes_clear(&value);
    tensor_value(&value, "x", "audio", &tensor);
    event_record(&record, 9, &value);
    cr_assert_eq(values_of(EVENTS_TENSORBOARD, &record), 0);
    cr_expect_eq(seen.n, 0);
    bytes_release(&record);
    bytes_release(&value);
    bytes_release(&tensor);
}

Test(records, images)
{
    struct bytes record = {0}, value = {0}, part = {0};
    pb_varint(&part, 1, 2);
    pb_varint(&part, 2, 3);
    pb_text(&part, 4, "\x89PNG");
    pb_text(&value, 1, "in");
    pb_bytes(&value, 4, part.data, part.len);
    event_record(&record, 1, &value);
    cr_assert_eq(values_of(EVENTS_TENSORBOARD, &record), 0);
    cr_expect(seen.n == 1 && seen.last.kind == VALUE_IMAGE);
    cr_expect_str_eq(seen.data, "\x89PNG");

    bytes_clear(&record);
    bytes_clear(&value);
    bytes_clear(&part);
    pb_varint(&part, 1, 7);
    pb_text(&part, 8, "3");
    pb_text(&part, 8, "2");
    pb_text(&part, 8, "\xff\xd8\xff the first");
    pb_text(&part, 8, "the second");
    tensor_value(&value, "in", "images", &part);
    event_record(&record, 1, &value);
    cr_assert_eq(values_of(EVENTS_TENSORBOARD, &record), 0);
    cr_expect_eq(seen.n, 1);
    cr_expect_str_eq(seen.data, "\xff\xd8\xff the first");
    bytes_release(&record);
    bytes_release(&value);
    bytes_release(&part);
}

Test(records, sounds)
{
    cleanup_bytes struct bytes record = {0}, value = {0}, part = {0};
    pb_float(&part, 1, 8000);
    pb_text(&part, 4, "RIFF");
    pb_text(&part, 5, "audio/wav");
    pb_text(&value, 1, "voice");
    pb_bytes(&value, 6, part.data, part.len);
    event_record(&record, 1, &value);
    cr_assert_eq(values_of(EVENTS_TENSORBOARD, &record), 0);
    cr_expect(seen.n == 1 && seen.last.kind == VALUE_AUDIO);
    cr_expect_str_eq(seen.data, "RIFF");

    bytes_clear(&record);
    bytes_clear(&value);
    bytes_clear(&part);
    pb_varint(&part, 1, 7);
    pb_text(&part, 8, "RIFF the first");
    pb_text(&part, 8, "its label");
    tensor_value(&value, "voice", "audio", &part);
    event_record(&record, 1, &value);
    cr_assert_eq(values_of(EVENTS_TENSORBOARD, &record), 0);
    cr_expect(seen.n == 1 && seen.last.kind == VALUE_AUDIO);
    cr_expect_str_eq(seen.data, "RIFF the first");
}

/* --- histograms ------------------------------------------------------------------------------- */

static int limits(struct drawn *ret, double min, double max, const double *ends, size_t n_ends,
                  const double *counts, size_t n)
{
    struct bytes histo = {0};
    struct event_value v = {.kind = VALUE_HISTOGRAM, .form = FORM_LIMITS};
    pb_double(&histo, 1, min);
    pb_double(&histo, 2, max);
    pb_doubles(&histo, 6, ends, n_ends);
    pb_doubles(&histo, 7, counts, n);
    v.data = histo.data;
    v.len = histo.len;
    int result = drawn_of(&v, ret);
    bytes_release(&histo);
    return result;
}

/* As TensorBoard's writers do it: ends at 1e308, most bars empty. */
Test(records, bars_end_where_the_values_do)
{
    static const double ends[] = {-1e308, -1, 0, 1, 1e308}, counts[] = {0, 0, 3, 4, 1};
    struct drawn b;
    cr_assert_eq(limits(&b, -0.5, 2.5, ends, 5, counts, 5), 0);
    cr_assert_eq(b.n, 3);
    cr_expect(b.x[0] == -0.5 && b.x[1] == 0 && b.x[2] == 1 && b.x[3] == 2.5);
    cr_expect(b.y[0] == 3 && b.y[1] == 4 && b.y[2] == 1);
    drawn_release(&b);
    cr_assert_eq(limits(&b, 1, 1, ends, 5, (double[]){0, 0, 0, 0, 0}, 5), 0);
    cr_expect_eq(b.n, 0, "nothing was counted");
    drawn_release(&b);
    cr_assert_eq(limits(&b, 1, 3, (double[]){3}, 1, (double[]){8}, 1), 0);
    cr_expect(b.n == 1 && b.x[0] == 1 && b.x[1] == 3);
    drawn_release(&b);
}

Test(records, bars_that_are_none)
{
    static const double ends[] = {1, 2, 3}, counts[] = {1, 1, 1};
    struct drawn b;
    cr_expect_eq(limits(&b, 0, 3, ends, 3, counts, 2), -1, "an end more");
    cr_expect_eq(limits(&b, 0, 3, ends, 2, counts, 3), -1, "a count more");
    cr_expect_eq(limits(&b, 0, 3, NULL, 0, NULL, 0), -1, "nothing");
    cr_expect_eq(limits(&b, 0, 3, (double[]){1, NAN}, 2, counts, 2), -1, "no number");
    cr_expect_null(b.x);
    static const double rows[DRAWN_BYTES / sizeof(double) + 3];
    struct event_value v = {.kind = VALUE_HISTOGRAM,
                            .form = FORM_DOUBLES,
                            .data = (const char *)rows,
                            .len = sizeof rows};
    cr_expect_eq(drawn_of(&v, &b), -1, "more than any page draws");
}

Test(records, bars_of_other_writers)
{
    struct bytes histo = {0};
    struct event_value v = {.kind = VALUE_HISTOGRAM, .form = FORM_EDGES};
    struct drawn b;
    pb_doubles(&histo, 1, (double[]){5, 6}, 2);
    pb_doubles(&histo, 2, (double[]){0, 1, 4}, 3);
    v.data = histo.data;
    v.len = histo.len;
    cr_assert_eq(drawn_of(&v, &b), 0);
    cr_expect(b.n == 2 && b.x[2] == 4 && b.y[1] == 6);
    drawn_release(&b);

    double rows[] = {0, 1, 5, 1, 4, 6};
    v = (struct event_value){
        .kind = VALUE_HISTOGRAM, .form = FORM_DOUBLES, .data = (char *)rows, .len = sizeof rows};
    cr_assert_eq(drawn_of(&v, &b), 0);
    cr_expect(b.n == 2 && b.x[0] == 0 && b.x[2] == 4 && b.y[1] == 6);
    drawn_release(&b);
    v.len = 23; /* no whole row */
    cr_assert_eq(drawn_of(&v, &b), 0);
    cr_expect_eq(b.n, 0);
    drawn_release(&b);
    bytes_release(&histo);
}

/* --- precision and recall --------------------------------------------------------------------- */

/* Six rows of two thresholds, the shares last. */
Test(records, precision_and_recall)
{
    static const float rows[12] = {9, 9, 9, 9, 9, 9, 9, 9, 0.5f, 0.75f, 1, 0.25f};
    struct event_value v = {
        .kind = VALUE_PR, .form = FORM_FLOATS, .data = (const char *)rows, .len = sizeof rows};
    struct drawn p;
    cr_assert_eq(drawn_of(&v, &p), 0);
    cr_expect(p.n == 2 && p.y[0] == 0.5 && p.y[1] == 0.75);
    cr_expect(p.x[0] == 1 && p.x[1] == 0.25);
    drawn_release(&p);
    v.len = 5 * sizeof(float);
    cr_expect_eq(drawn_of(&v, &p), -1, "no whole column");
    v.len = DRAWN_BYTES + 1;
    cr_expect_eq(drawn_of(&v, &p), -1, "more than any page draws");
    static const float none[6] = {9, 9, 9, 9, NAN, 1};
    v = (struct event_value){
        .kind = VALUE_PR, .form = FORM_FLOATS, .data = (const char *)none, .len = sizeof none};
    cr_expect_eq(drawn_of(&v, &p), -1, "no number");
    cr_expect_null(p.x);
}

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "model.h"
#include "sampler.h"

#define LEN(a) (sizeof(a) / sizeof(a)[0])

Test(operator_sampler, what_a_job_shows)
{
    static const struct {
        const char *own;
        int64_t workers, devices;
        const char *want;
    } rows[] = {
        {NULL, 2, 2, "ranks=4,ranks-per-node=2"},
        {NULL, 3, 0, "ranks=3,ranks-per-node=1"},
        {"", 1, 8, "ranks=8,ranks-per-node=8"},
        {"torch-distributed,batch-size=64", 4, 8,
         "torch-distributed,batch-size=64,ranks=32,ranks-per-node=8"},
        {"torch-distributed", 4, 8, "torch-distributed,ranks=32,ranks-per-node=8"},
        {"random,ranks=32", 4, 8, "random,ranks=32,ranks-per-node=8"},
        {"random,ranks=4", 4, 8, "random,ranks=4"}, /* one rank a pod: the user knows better */
        {"random,ranks=4,ranks-per-node=1", 4, 8, "random,ranks=4,ranks-per-node=1"},
        {"ranks=4", 2, 1, "ranks=2,ranks-per-node=1"}, /* no name */
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        cleanup_free char *got = sampler_note(rows[i].own, rows[i].workers, rows[i].devices);
        cr_expect_str_eq(got, rows[i].want, "%s: %s", rows[i].own, got);
    }
}

Test(operator_sampler, what_a_set_is_read_by)
{
    static const struct {
        const char *given, *note, *want; /* want NULL: not known */
    } rows[] = {
        {NULL, NULL, NULL},
        {"", "", NULL},
        {NULL, "ranks=4,ranks-per-node=2", NULL},
        {"", "ranks=4,ranks-per-node=2", NULL},
        {NULL, "torch-random,ranks=4", "torch-random,ranks=4"},
        {"sequence", NULL, "sequence"},
        {"sequence", "torch-random,ranks=4", "sequence,ranks=4"},
        {"random,batch-size=8", "ranks=4,ranks-per-node=2",
         "random,batch-size=8,ranks=4,ranks-per-node=2"},
        {"random,ranks=4", "ranks=4,ranks-per-node=2", "random,ranks=4,ranks-per-node=2"},
        {"random,ranks=8", "ranks=4,ranks-per-node=2", "random,ranks=8"},
        {"random,ranks-per-node=1", "ranks=4,ranks-per-node=2", "random,ranks-per-node=1,ranks=4"},
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        cleanup_free char *got = sampler_complete(rows[i].given, rows[i].note);
        cr_expect((!got && !rows[i].want) || (got && rows[i].want && !strcmp(got, rows[i].want)),
                  "%s + %s: %s", rows[i].given, rows[i].note, got);
    }
}

Test(operator_sampler, what_a_mount_has)
{
    static const struct {
        const char *have, *want;
        bool agrees;
    } rows[] = {
        {"", "sequence", false},
        {NULL, "sequence", false},
        {"torch-distributed,ranks=4,ranks-per-node=2,batch-size=64,epoch=7,seed=3,shuffle=true",
         "torch-distributed,ranks=4,ranks-per-node=2", true},
        {"torch-distributed,ranks=4,ranks-per-node=2,batch-size=64,epoch=7,seed=3",
         "torch-distributed,ranks=4,ranks-per-node=2,epoch=0", true},
        {"torch-distributed,ranks=4,ranks-per-node=1,batch-size=64", "torch-distributed,ranks=8",
         false},
        {"torch-distributed,ranks=4,ranks-per-node=1,batch-size=64",
         "torch-distributed,ranks=4,ranks-per-node=2", false},
        {"paddle-distributed,ranks=4", "torch-distributed,ranks=4", false},
        {"paddle-distributed,ranks=4", "random,ranks=4", true},
        {"torch-random,seed=18446744073709551615", "torch-random,seed=-1", true},
        {"torch-random,seed=18446744073709551615", "torch-random,seed=-2", false},
        {"nonsense", "sequence", false},
    };
    for (size_t i = 0; i < LEN(rows); i++)
        cr_expect_eq(sampler_agrees(rows[i].have, rows[i].want), rows[i].agrees, "%s of %s",
                     rows[i].have, rows[i].want);
}

/* --- the order of reading --------------------------------------------------------------------- */

#define NS "team"

static struct model *ready(void)
{
    struct model *m = model_new(
        "[{\"apiVersion\":\"batch.paddlepaddle.org/v1alpha1\",\"kind\":\"SampleSet\",\"metadata\":{"
        "\"name\":\"imagenet\",\"namespace\":\"" NS "\"},\"spec\":{\"partitions\":2,\"source\":{"
        "\"uri\":\"http://files.example/imagenet\"}}},"
        "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n1\"}},"
        "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n2\"}}]");
    model_settle(m, 20);
    return m;
}

static const char *set_at(struct model *m, const char *path)
{
    return model_at(m, "SampleSet", NS, "imagenet", path);
}

static const char *condition(struct model *m, const char *type)
{
    return model_condition(m, "SampleSet", NS, "imagenet", type);
}

static const char *read_by(struct model *m, const char *pod)
{
    const char *text = json_string_value(json_object_get(m->samplers, pod));
    return text ? text : "";
}

static void job_shows(struct model *m, const char *sampler)
{
    cleanup_free char *patch =
        xasprintf("{\"metadata\":{\"annotations\":{\"sampan.io/sampler\":\"%s\"}}}", sampler);
    model_patch(m, "SampleSet", NS, "imagenet", patch);
    model_settle(m, 20);
}

Test(operator_sampler, mounts_are_told_the_order_that_is_known)
{
    struct model *m = ready();
    cr_assert_str_eq(condition(m, "OrderKnown"), "Unknown Unknown");
    /* Ranks alone are no order. */
    job_shows(m, "ranks=4,ranks-per-node=2");
    cr_assert_str_eq(set_at(m, "status|order"), "unknown");
    cr_assert_eq(m->told, 0);
    /* What a job itself has told a mount is one, of which the set says nothing else. */
    json_object_set_new(m->samplers, "imagenet-runtime-0",
                        json_string("torch-distributed,ranks=4,epoch=2"));
    model_patch(m, "SampleSet", NS, "imagenet", "{\"metadata\":{\"annotations\":{\"a\":\"a\"}}}");
    model_settle(m, 20);
    cr_assert_str_eq(set_at(m, "status|order"), "known");
    cr_assert_str_eq(condition(m, "OrderKnown"), "True ToldByReaders");
    cr_assert_eq(m->told, 0);
    json_object_del(m->samplers, "imagenet-runtime-0");
    /* A set's own order takes them up. */
    model_patch(m, "SampleSet", NS, "imagenet",
                "{\"spec\":{\"sampler\":\"torch-distributed,batch-size=8\"}}");
    model_settle(m, 20);
    cr_assert_str_eq(set_at(m, "status|order"), "known");
    cr_assert_str_eq(condition(m, "OrderKnown"), "True Known");
    cr_assert_eq(m->told, 2);
    cr_assert(strstr(read_by(m, "imagenet-runtime-1"),
                     "torch-distributed,ranks=4,ranks-per-node=2,batch-size=8,"),
              "%s", read_by(m, "imagenet-runtime-1"));
    /* What a job has said since is left alone; a mount that lost it is told again. */
    json_object_set_new(m->samplers, "imagenet-runtime-0",
                        json_string("torch-distributed,ranks=4,ranks-per-node=2,batch-size=8,"
                                    "epoch=3,seed=5"));
    json_object_del(m->samplers, "imagenet-runtime-1");
    model_patch(m, "SampleSet", NS, "imagenet", "{\"metadata\":{\"annotations\":{\"a\":\"b\"}}}");
    model_settle(m, 20);
    cr_assert_eq(m->told, 3);
    cr_assert(strstr(read_by(m, "imagenet-runtime-0"), "epoch=3"));
    cr_assert(*read_by(m, "imagenet-runtime-1"));
    /* Another job has other ranks. */
    job_shows(m, "ranks=6,ranks-per-node=3");
    cr_assert_eq(m->told, 5);
    cr_assert(strstr(read_by(m, "imagenet-runtime-0"), "ranks=6,ranks-per-node=3"));
    model_free(m);
}

Test(operator_sampler, an_order_that_cannot_be_is_explained)
{
    struct model *m = ready();
    job_shows(m, "torch-distribute,ranks=4");
    cr_assert_str_eq(condition(m, "OrderKnown"), "False InvalidSampler");
    cr_assert_eq(model_event(m, "Warning InvalidSampler"), 1);
    cr_assert_str_eq(set_at(m, "status|order"), "unknown");
    cr_assert_eq(m->told, 0);
    cr_assert_str_eq(set_at(m, "status|phase"), "Ready");
    model_free(m);
}

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "model.h"

#define NS  "paddle-system"
#define API "\"apiVersion\":\"batch.paddlepaddle.org/v1alpha1\""
#define SET                                                                                   \
    "{" API ",\"kind\":\"SampleSet\",\"metadata\":{\"name\":\"imagenet\",\"namespace\":\"" NS \
    "\"},\"spec\":{\"partitions\":2,\"source\":{\"uri\":\"s3://data/imagenet\"},\"cache\":{"  \
    "\"levels\":[{\"mediumType\":\"SSD\",\"path\":\"/a:/b\",\"cacheSize\":100}]}}}"
#define NODES                                                                   \
    "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n1\"}}," \
    "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n2\"}}"
#define JOB_IN(ns, name, spec)                                                                \
    "{" API ",\"kind\":\"SampleJob\",\"metadata\":{\"name\":\"" name "\",\"namespace\":\"" ns \
    "\"},\"spec\":{" spec "}}"
#define JOB(name, spec) JOB_IN(NS, name, "\"sampleSetRef\":{\"name\":\"imagenet\"}," spec)
#define SECRET(name, data)                                                            \
    "{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{\"name\":\"" name "\"," \
    "\"namespace\":\"" NS "\"},\"data\":{" data "}}"
#define KEYS "\"access-key\":\"QUs=\",\"secret-key\":\"U0s=\""

static const char *job_at(struct model *m, const char *name, const char *path)
{
    return model_at(m, "SampleJob", NS, name, path);
}

static const char *phase(struct model *m, const char *name)
{
    return job_at(m, name, "status|phase");
}

/* A ready set; then the log is empty. */
static struct model *ready(void)
{
    struct model *m = model_new("[" SET "," NODES "]");
    model_settle(m, 20);
    cr_assert_str_eq(model_at(m, "SampleSet", NS, "imagenet", "status|phase"), "Ready");
    bytes_clear(&m->log);
    json_object_clear(m->events);
    return m;
}

/* --- what is posted --------------------------------------------------------------------------- */

static const struct {
    const char *name, *spec, *options; /* as the servers get them; type is in front */
} posted[] = {
    {"warmup", "\"type\":\"warmup\"", "\"warmup\",\"options\":{}"},
    {"paths of upstream",
     "\"type\":\"warmup\",\"warmupOptions\":{\"paths\":[\"/mnt/imagenet/train\",\"val/\"]}",
     "\"warmup\",\"options\":{\"paths\":[\"train\",\"val/\"]}"},
    {"the root is everything",
     "\"type\":\"warmup\",\"warmupOptions\":{\"paths\":[\"/mnt/imagenet\",\"val\"]}",
     "\"warmup\",\"options\":{}"},
    {"strategy, flat",
     "\"type\":\"warmup\",\"warmupOptions\":{\"strategyName\":\"sequence\",\"verify\":true}",
     "\"warmup\",\"options\":{\"strategy\":\"sequence\",\"verify\":true}"},
    {"strategy, nested",
     "\"type\":\"warmup\",\"warmupOptions\":{\"strategy\":{\"strategyName\":\"sequence\"}}",
     "\"warmup\",\"options\":{\"strategy\":\"sequence\"}"},
    {"random without an order",
     "\"type\":\"warmup\",\"warmupOptions\":{\"strategyName\":\"random\"}",
     "\"warmup\",\"options\":{}"},
    {"random with an order",
     "\"type\":\"warmup\",\"warmupOptions\":{\"strategyName\":\"random\",\"sampler\":"
     "\"paddle-distributed,ranks=4\"}",
     "\"warmup\",\"options\":{\"sampler\":\"paddle-distributed,ranks=4\",\"strategy\":\"random\"}"},
    {"an order that names its ranks is as it is",
     "\"type\":\"warmup\",\"warmupOptions\":{\"sampler\":\"torch-random,ranks=1\"}",
     "\"warmup\",\"options\":{\"sampler\":\"torch-random,ranks=1\"}"},
    {"clear", "\"type\":\"clear\"", "\"clear\",\"options\":{}"},
    {"clear a cache folder", "\"type\":\"clear\",\"clearOptions\":{\"paths\":[\"/b\"]}",
     "\"clear\",\"options\":{}"},
    {"clear a folder", "\"type\":\"clear\",\"clearOptions\":{\"paths\":[\"/train/a\"]}",
     "\"clear\",\"options\":{\"paths\":[\"train/a\"]}"},
    {"evict by age", "\"type\":\"evict\",\"evictOptions\":{\"olderThan\":\"24h\"}",
     "\"evict\",\"options\":{\"older_than_s\":86400}"},
    {"evict to a size", "\"type\":\"evict\",\"evictOptions\":{\"toSize\":\"10Gi\"}",
     "\"evict\",\"options\":{\"to\":10737418240}"},
    {"evict to nothing", "\"type\":\"evict\",\"evictOptions\":{\"toSize\":0}",
     "\"evict\",\"options\":{\"to\":0}"},
    {"evict from the store",
     "\"type\":\"evict\",\"secretRef\":{\"name\":\"keys\"},\"evictOptions\":{\"olderThan\":"
     "\"24h\",\"from\":\"store\"}",
     "\"evict\",\"options\":{\"older_than_s\":86400,\"store\":true,\"credentials\":{"
     "\"accessKeyId\":\"AK\",\"secretAccessKey\":\"SK\"}}"},
    {"rmr",
     "\"type\":\"rmr\",\"rmrOptions\":{\"paths\":[\"/mnt/imagenet/old\"],\"skipTrash\":true}",
     "\"rmr\",\"options\":{\"paths\":[\"old\"],\"skipTrash\":true}"},
    {"rmr with keys",
     "\"type\":\"rmr\",\"secretRef\":{\"name\":\"keys\"},\"rmrOptions\":{\"paths\":[\"old\"]}",
     "\"rmr\",\"options\":{\"paths\":[\"old\"],\"credentials\":{\"accessKeyId\":\"AK\","
     "\"secretAccessKey\":\"SK\"}}"},
    {"scan", "\"type\":\"scan\"", "\"scan\",\"options\":{}"},
    {"sync to a folder of the set",
     "\"type\":\"sync\",\"secretRef\":{\"name\":\"keys\"},\"syncOptions\":{\"source\":"
     "\"bos://there.bj.bcebos.com/x\",\"destination\":\"new\",\"threads\":500,\"bwlimit\":8,"
     "\"update\":true,\"force-update\":true,\"delete-dst\":true,\"include\":\"*.jpg\",\"exclude\":"
     "\"*\",\"start\":\"a\"}",
     "\"sync\",\"options\":{\"sources\":[\"bos://there.bj.bcebos.com/x\"],\"destination\":"
     "\"s3://data/imagenet/new\",\"threads\":256,\"bandwidth\":1000000,\"start\":\"a\",\"update\":"
     "true,\"forceUpdate\":true,\"deleteDst\":true,\"rules\":[{\"include\":\"*.jpg\"},{\"exclude\":"
     "\"*\"}],\"credentials\":{\"accessKeyId\":\"AK\",\"secretAccessKey\":\"SK\"}}"},
    {"sync of the set elsewhere",
     "\"type\":\"sync\",\"syncOptions\":{\"destination\":\"s3://copy/x\",\"dry\":true}",
     "\"sync\",\"options\":{\"sources\":[\"s3://data/imagenet\"],\"destination\":\"s3://copy/x\","
     "\"dry\":true}"},
    {"keys of another store",
     "\"type\":\"sync\",\"secretRef\":{\"name\":\"other\"},\"syncOptions\":{\"source\":"
     "\"bos://there.bj.bcebos.com/x\",\"destination\":\"new\"}",
     "\"sync\",\"options\":{\"sources\":[\"bos://there.bj.bcebos.com/x\"],\"destination\":"
     "\"s3://data/imagenet/new\"}"},
};

/* What `job` is posted with, for a set of this spec. */
static void posts(const char *set, const char *job, const char *options)
{
    cleanup_free char *objects = xasprintf(
        "[{" API ",\"kind\":\"SampleSet\",\"metadata\":{\"name\":\"imagenet\",\"namespace\":"
        "\"" NS "\"},\"spec\":{%s}}," NODES "," SECRET("keys", KEYS) "," SECRET(
            "copy", "\"access-key\":\"QzE=\",\"secret-key\":\"QzI=\"") "]",
        set);
    cleanup_free char *one = xasprintf(JOB("w", "%s"), job);
    struct model *m = model_new(objects);
    model_settle(m, 20);
    bytes_clear(&m->log);
    model_add(m, one);
    model_settle(m, 20);
    cr_assert(strstr(m->log.data, options), "want %s in:\n%s", options, m->log.data);
    model_free(m);
}

Test(operator_samplejob, what_changes_the_store_goes_where_the_set_lies)
{
    const char *source = "\"source\":{\"uri\":\"s3://data/imagenet\",\"endpoint\":"
                         "\"https://s3.example\",\"region\":\"here\"},\"secretRef\":{\"name\":"
                         "\"keys\"}";
    cleanup_free char *copied =
        xasprintf("%s,\"sync\":{\"destination\":\"minio://copies.example/b/imagenet\","
                  "\"secretRef\":{\"name\":\"copy\"}}",
                  source);
    posts(source, "\"type\":\"rmr\",\"rmrOptions\":{\"paths\":[\"old\"]}",
          "{\"paths\":[\"old\"],\"endpoint\":\"https://s3.example\",\"region\":\"here\","
          "\"credentials\":{\"accessKeyId\":\"AK\",\"secretAccessKey\":\"SK\"}}");
    posts(source, "\"type\":\"evict\",\"evictOptions\":{\"olderThan\":\"24h\",\"from\":\"store\"}",
          "{\"older_than_s\":86400,\"store\":true,\"endpoint\":\"https://s3.example\","
          "\"region\":\"here\",\"credentials\":");
    posts(copied, "\"type\":\"rmr\",\"rmrOptions\":{\"paths\":[\"old\"]}",
          "{\"paths\":[\"old\"],\"credentials\":{\"accessKeyId\":\"C1\",\"secretAccessKey\":"
          "\"C2\"}}");
}

Test(operator_samplejob, posts_what_is_meant)
{
    struct model *base = ready();
    for (size_t i = 0; i < sizeof posted / sizeof posted[0]; i++) {
        struct model *m = model_copy(base);
        cleanup_free char *job = xasprintf(JOB("w", "%s"), posted[i].spec);
        cleanup_free char *want = xasprintf("\"type\":%s}\n", posted[i].options);
        model_add(m, SECRET("keys", KEYS));
        /* storage: oss */
        model_add(m, SECRET("other", KEYS ",\"storage\":\"b3Nz\""));
        model_add(m, job);
        model_settle(m, 20);
        cr_expect(m->log.data && strstr(m->log.data, want), "%s: want %s in\n%s", posted[i].name,
                  want, m->log.data);
        cr_expect_str_eq(phase(m, "w"), "Succeeded", "%s: %s", posted[i].name, phase(m, "w"));
        cr_expect_eq(json_object_size(m->jobs), 2, "%s", posted[i].name); /* one is the set's */
        cr_expect_str_eq(job_at(m, "w", "status|progress"), "100.0% (10/10)");
        cr_expect_str_eq(job_at(m, "w", "status|sampleSet"), "imagenet");
        cr_expect_eq(model_event(m, "Warning"), 0);
        cr_expect_eq(model_event(m, "Normal JobSucceeded"), 1);
        model_free(m);
    }
    model_free(base);
}

/* --- what users do wrong ---------------------------------------------------------------------- */

static const struct {
    const char *name, *spec, *phase, *type, *condition, *event;
} faults[] = {
    {"no such set", "\"sampleSetRef\":{\"name\":\"imagenot\"},\"type\":\"warmup\"", "Waiting",
     "Waiting", "True SampleSetMissing",
     "Warning SampleSetMissing: there is no SampleSet imagenot in namespace paddle-system, and "
     "none "
     "of that name is shared to it (create it, or name another namespace)"},
    {"no set at all", "\"type\":\"warmup\"", "Waiting", "Waiting", "True NoSampleSet",
     "Warning NoSampleSet"},
    {"set of a namespace that does not share it",
     "\"sampleSetRef\":{\"name\":\"x\",\"namespace\":\"other\"},\"type\":\"warmup\"", "Waiting",
     "Waiting", "True SampleSetMissing",
     "Warning SampleSetMissing: SampleSet other/x is not shared"},
    {"unknown type", "\"sampleset\":\"imagenet\",\"type\":\"warmdown\"", "", "SpecValid",
     "False InvalidSpec", "Warning InvalidSpec: spec.type: \"warmdown\": want one of"},
    {"missing secret",
     "\"sampleset\":\"imagenet\",\"type\":\"sync\",\"secretRef\":{\"name\":\"none\"},"
     "\"syncOptions\":{\"source\":\"s3://a/b\",\"destination\":\"c\"}",
     "Waiting", "SecretUsable", "False SecretMissing", "Warning SecretMissing"},
    {"wrong key names",
     "\"sampleset\":\"imagenet\",\"type\":\"sync\",\"secretRef\":{\"name\":\"wrong\"},"
     "\"syncOptions\":{\"source\":\"s3://a/b\",\"destination\":\"c\"}",
     "Waiting", "SecretUsable", "False WrongKeyNames", "Warning WrongKeyNames"},
    {"URI", "\"sampleset\":\"imagenet\",\"type\":\"sync\",\"syncOptions\":{\"source\":\"a b://\"}",
     "Failed", "OptionsValid", "False InvalidURI", "Warning InvalidURI: syncOptions.source"},
    {"no destination", "\"sampleset\":\"imagenet\",\"type\":\"sync\",\"syncOptions\":{}", "Failed",
     "OptionsValid", "False NoDestination", "Warning NoDestination"},
    {"a way out",
     "\"sampleset\":\"imagenet\",\"type\":\"rmr\",\"rmrOptions\":{\"paths\":[\"a/../../b\"]}",
     "Failed", "OptionsValid", "False InvalidPath", "Warning InvalidPath"},
    {"everything", "\"sampleset\":\"imagenet\",\"type\":\"rmr\",\"rmrOptions\":{\"paths\":[\"/\"]}",
     "Failed", "OptionsValid", "False InvalidPath", "Warning InvalidPath"},
    {"a list in a file",
     "\"sampleset\":\"imagenet\",\"type\":\"warmup\",\"warmupOptions\":{\"file\":\"list\"}",
     "Failed", "OptionsValid", "False NotSupported", "Warning NotSupported"},
    {"an evict that only says what it would do",
     "\"sampleset\":\"imagenet\",\"type\":\"evict\",\"evictOptions\":{\"toSize\":0,\"dry\":true}",
     "Failed", "OptionsValid", "False NotSupported", "Warning NotSupported: evictOptions.dry"},
    {"depends on nothing",
     "\"sampleset\":\"imagenet\",\"type\":\"warmup\",\"dependsOn\":[\"before\"]", "Waiting",
     "Waiting", "True DependencyMissing", "Warning DependencyMissing"},
    {"depends on itself", "\"sampleset\":\"imagenet\",\"type\":\"warmup\",\"dependsOn\":[\"w\"]",
     "Waiting", "Waiting", "True DependsOnItself", "Warning DependsOnItself"},
    {"time zone",
     "\"sampleset\":\"imagenet\",\"type\":\"warmup\",\"schedule\":{\"cron\":\"@daily\","
     "\"timeZone\":"
     "\"Mars/Base\"}",
     "Scheduled", "Scheduled", "False InvalidSchedule", "Warning InvalidSchedule"},
};

Test(operator_samplejob, says_once_what_is_wrong)
{
    struct model *base = ready();
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct model *m = model_copy(base);
        cleanup_free char *job = xasprintf(JOB_IN(NS, "w", "%s"), faults[i].spec);
        model_add(m, SECRET("wrong", "\"user\":\"QUs=\""));
        model_add(m, "{" API ",\"kind\":\"SampleSet\",\"metadata\":{\"name\":\"x\",\"namespace\":"
                     "\"other\",\"finalizers\":[\"z\"]},\"spec\":{\"noSync\":true,\"source\":{"
                     "\"uri\":\"file:///x\"}}}");
        model_settle(m, 20);
        json_object_clear(m->events);
        model_add(m, job);
        model_settle(m, 10);
        const char *condition = model_condition(m, "SampleJob", NS, "w", faults[i].type);
        cr_expect_str_eq(condition, faults[i].condition, "%s: %s", faults[i].name, condition);
        cr_expect_str_eq(phase(m, "w"), faults[i].phase, "%s: %s", faults[i].name, phase(m, "w"));
        cr_expect_eq(model_event(m, faults[i].event), 1, "%s: %s", faults[i].name, m->log.data);
        if (strstr(faults[i].spec, "\"sampleset\":\"imagenet\"") && *faults[i].phase)
            cr_expect_str_eq(job_at(m, "w", "status|sampleSet"), "imagenet", "%s", faults[i].name);
        cr_expect_eq(json_object_size(m->jobs), 1, "%s", faults[i].name); /* the set's own */
        model_free(m);
    }
    model_free(base);
}

/* --- a run ------------------------------------------------------------------------------------ */

Test(operator_samplejob, waits_for_its_set)
{
    struct model *m = model_new("[" JOB("w", "\"type\":\"warmup\"") "," NODES "]");
    model_settle(m, 3);
    cr_assert_str_eq(phase(m, "w"), "Waiting");
    model_add(m, SET);
    model_settle(m, 30);
    cr_assert_str_eq(phase(m, "w"), "Succeeded");
    cr_assert_str_eq(model_condition(m, "SampleJob", NS, "w", "Waiting"), "False Begun");
    model_free(m);
}

Test(operator_samplejob, failed_is_tried_again_as_often_as_it_may)
{
    struct model *m = ready();
    m->jobs_end = "failed";
    m->job_error = "a/b: 404";
    model_add(m, JOB("w", "\"type\":\"warmup\",\"backoffLimit\":2"));
    model_settle(m, 30);
    cr_assert_str_eq(phase(m, "w"), "Failed");
    cr_assert_str_eq(job_at(m, "w", "status|message"), "a/b: 404");
    cr_assert_eq(json_object_size(m->jobs), 1 + 3);
    cr_assert_eq(model_event(m, "Warning JobFailed: warmup: a/b: 404"), 1);
    /* Only other options make it begin anew. */
    m->jobs_end = "succeeded";
    m->now += 86400;
    cr_assert(!model_pass(m));
    model_patch(m, "SampleJob", NS, "w", "{\"spec\":{\"backoffLimit\":1}}");
    model_settle(m, 30);
    cr_assert_str_eq(phase(m, "w"), "Failed");
    cr_assert_str_eq(job_at(m, "w", "status|message"), "a/b: 404");
    model_patch(m, "SampleJob", NS, "w", "{\"spec\":{\"warmupOptions\":{\"paths\":[\"a\"]}}}");
    model_settle(m, 30);
    cr_assert_str_eq(phase(m, "w"), "Succeeded");
    cr_assert_str_eq(job_at(m, "w", "status|message"), "");
    model_free(m);
}

Test(operator_samplejob, a_server_that_is_away_is_waited_for)
{
    struct model *m = ready();
    m->jobs_end = "running";
    model_add(m, JOB("w", "\"type\":\"warmup\""));
    model_settle(m, 5);
    cr_assert_str_eq(phase(m, "w"), "Running");
    m->away = true;
    model_settle(m, 5);
    cr_assert_str_eq(phase(m, "w"), "Running");
    cr_assert_str_eq(model_condition(m, "SampleJob", NS, "w", "ServerAnswers"),
                     "False Unreachable");
    m->away = false;
    json_object_clear(m->jobs); /* its state is lost, too */
    m->jobs_end = "succeeded";
    model_settle(m, 20);
    cr_assert_str_eq(phase(m, "w"), "Succeeded");
    model_free(m);
}

Test(operator_samplejob, one_job_waits_for_another)
{
    struct model *m = ready();
    m->jobs_end = "running";
    model_add(m, JOB("second", "\"type\":\"warmup\",\"dependsOn\":[\"first\"]"));
    model_add(m, JOB("first", "\"type\":\"scan\""));
    model_settle(m, 3);
    cr_assert_str_eq(phase(m, "first"), "Running");
    cr_assert_str_eq(phase(m, "second"), "Waiting");
    m->jobs_end = "succeeded";
    model_settle(m, 30);
    cr_assert_str_eq(phase(m, "second"), "Succeeded");
    model_free(m);
}

Test(operator_samplejob, terminate_cancels)
{
    struct model *m = ready();
    m->jobs_end = "running";
    model_add(m, JOB("w", "\"type\":\"warmup\""));
    model_settle(m, 3);
    cr_assert_str_eq(phase(m, "w"), "Running");
    model_patch(m, "SampleJob", NS, "w", "{\"spec\":{\"terminate\":true}}");
    model_settle(m, 10);
    cr_assert_str_eq(phase(m, "w"), "Cancelled");
    cr_assert_eq(model_event(m, "Normal JobCancelled"), 1);
    model_add(m, JOB("never", "\"type\":\"warmup\",\"terminate\":true"));
    model_settle(m, 10);
    cr_assert_str_eq(phase(m, "never"), "Cancelled");
    cr_assert_eq(json_object_size(m->jobs), 2);
    model_free(m);
}

Test(operator_samplejob, what_is_deleted_is_cancelled_first)
{
    struct model *m = ready();
    m->jobs_end = "running";
    model_add(m, JOB("w", "\"type\":\"warmup\""));
    model_settle(m, 3);
    model_delete(m, "SampleJob", NS, "w");
    model_settle(m, 10);
    cr_assert(!model_get(m, "SampleJob", NS, "w"));
    cr_assert(strstr(m->log.data, "send DELETE "));
    /* Nor does a server that does not answer keep it. */
    model_add(m, JOB("v", "\"type\":\"warmup\""));
    model_settle(m, 3);
    m->away = true;
    model_delete(m, "SampleJob", NS, "v");
    model_settle(m, 60);
    cr_assert(!model_get(m, "SampleJob", NS, "v"));
    model_free(m);
}

Test(operator_samplejob, is_gone_some_time_after_its_end)
{
    struct model *m = ready();
    model_add(m, JOB("w", "\"type\":\"warmup\",\"ttlSecondsAfterFinished\":3600"));
    m->until = m->now + 1800;
    model_settle(m, 30);
    cr_assert_str_eq(phase(m, "w"), "Succeeded");
    m->until = m->now + 7200;
    model_settle(m, 30);
    cr_assert(!model_get(m, "SampleJob", NS, "w"));
    model_free(m);
}

Test(operator_samplejob, a_set_waits_for_the_job_at_its_end)
{
    struct model *m = ready();
    m->jobs_end = "running";
    model_add(m, JOB("w", "\"type\":\"warmup\""));
    model_settle(m, 3);
    model_delete(m, "SampleSet", NS, "imagenet");
    model_settle(m, 3);
    cr_assert_str_eq(model_condition(m, "SampleSet", NS, "imagenet", "Deletion"), "False InUse");
    m->jobs_end = "succeeded";
    model_settle(m, 30);
    cr_assert(!model_get(m, "SampleSet", NS, "imagenet"));
    cr_assert_str_eq(phase(m, "w"), "Succeeded");
    model_free(m);
}

Test(operator_samplejob, killed_at_any_action_it_is_done_once)
{
    int64_t all = 1;
    cleanup_free char *want = NULL;
    struct model *base = ready();
    for (int64_t n = -1; n < all; n++) {
        struct model *m = model_copy(base);
        m->actions = 0;
        m->kill_after = n;
        model_add(m, JOB("w", "\"type\":\"warmup\""));
        model_settle(m, 30);
        cleanup_free char *got = model_text(m);
        want = want ? want : xstrdup(got);
        all = n < 0 ? m->actions : all;
        cr_assert_str_eq(got, want, "killed after %lld actions", (long long)n);
        cr_assert_eq(json_object_size(m->jobs), 2);
        model_free(m);
    }
    cr_assert_gt(all, 4);
    model_free(base);
}

/* --- by the clock ----------------------------------------------------------------------------- */

#define DAILY(more) \
    JOB("daily", "\"type\":\"warmup\",\"schedule\":{\"cron\":\"0 9 * * *\"" more "}")
#define DAY 86400

Test(operator_samplejob, runs_by_the_clock)
{
    struct model *m = ready(); /* it is 08:00 */
    model_add(m, DAILY());
    m->until = m->now + 1800;
    model_settle(m, 30);
    cr_assert_str_eq(phase(m, "daily"), "Scheduled");
    cr_assert_str_eq(job_at(m, "daily", "status|nextScheduleTime"), "2027-01-15T09:00:00Z");
    cr_assert_eq(model_count(m, "SampleJob"), 1);
    m->until += 3600;
    model_settle(m, 60);
    cr_assert_eq(model_count(m, "SampleJob"), 2);
    cr_assert_str_eq(job_at(m, "daily", "status|lastScheduleTime"), "2027-01-15T09:00:00Z");
    cr_assert_str_eq(job_at(m, "daily", "status|runs|0|phase"), "Succeeded");
    cr_assert_str_neq(job_at(m, "daily", "status|lastSuccessfulTime"), "");
    cr_assert_str_eq(job_at(m, "daily-30000060", "status|phase"), "Succeeded");
    /* A week later three are remembered. */
    m->until += 7 * DAY;
    model_settle(m, 300);
    cr_assert_eq(model_count(m, "SampleJob"), 4);
    cr_assert_str_eq(job_at(m, "daily", "status|runs|3|name"), "");
    model_delete(m, "SampleJob", NS, "daily");
    model_settle(m, 5);
    cr_assert_eq(model_count(m, "SampleJob"), 0);
    model_free(m);
}

Test(operator_samplejob, what_was_missed_is_made_up_for_once)
{
    struct model *m = ready();
    model_add(m, DAILY());
    m->until = m->now;
    model_settle(m, 5);
    m->now += 10 * DAY;
    m->until = m->now + 60;
    model_settle(m, 30);
    cr_assert_eq(model_count(m, "SampleJob"), 2);
    cr_assert_str_eq(job_at(m, "daily", "status|lastScheduleTime"), "2027-01-24T09:00:00Z");
    model_free(m);
}

Test(operator_samplejob, no_run_while_suspended)
{
    struct model *m = ready();
    model_add(m, DAILY(",\"suspend\":true"));
    m->until = m->now + 3 * DAY;
    model_settle(m, 30);
    cr_assert_str_eq(phase(m, "daily"), "Suspended");
    cr_assert_eq(model_count(m, "SampleJob"), 1);
    cr_assert_eq(m->again, 0);
    model_free(m);
}

static size_t at_the_second_run(const char *policy, struct model **ret)
{
    struct model *m = ready();
    cleanup_free char *job =
        xasprintf(JOB("daily", "\"type\":\"warmup\",\"schedule\":{\"cron\":\"0 9 * * *\","
                               "\"concurrencyPolicy\":\"%s\"}"),
                  policy);
    m->jobs_end = "running";
    model_add(m, job);
    model_settle(m, 0);
    m->now += 3700;
    model_settle(m, 0);
    cr_assert_str_eq(job_at(m, "daily-30000060", "status|phase"), "Running", "%s", m->log.data);
    m->now += DAY;
    for (int i = 0; i < 10; i++) {
        model_settle(m, 0);
        m->now += 5;
    }
    *ret = m;
    return model_count(m, "SampleJob") - 1;
}

Test(operator_samplejob, policies_of_runs_that_overlap)
{
    struct model *m;
    cr_assert_eq(at_the_second_run("Forbid", &m), 1);
    cr_assert_str_eq(model_condition(m, "SampleJob", NS, "daily", "Scheduled"), "True WaitsForRun");
    m->jobs_end = "succeeded";
    m->until = m->now + 600;
    model_settle(m, 60);
    cr_assert_eq(model_count(m, "SampleJob") - 1, 2); /* it follows at once */
    model_free(m);
    cr_assert_eq(at_the_second_run("Allow", &m), 2);
    model_free(m);
    cr_assert_eq(at_the_second_run("Replace", &m), 1);
    cr_assert_str_eq(job_at(m, "daily-30001500", "status|phase"), "Running");
    model_free(m);
}

static void kill_at_any_action(const char *daily)
{
    int64_t all = 1;
    struct model *base = ready();
    model_add(base, daily);
    model_settle(base, 0);
    for (int64_t n = -1; n < all; n++) {
        struct model *m = model_copy(base);
        m->actions = 0;
        m->kill_after = n;
        m->now += 3700;
        m->until = m->now + 600;
        model_settle(m, 60);
        all = n < 0 ? m->actions : all;
        cr_assert_eq(model_count(m, "SampleJob"), 2, "killed after %lld actions", (long long)n);
        cr_assert_eq(json_object_size(m->jobs), 2);
        cr_assert_str_eq(job_at(m, "daily", "status|runs|0|phase"), "Succeeded");
        model_free(m);
    }
    cr_assert_gt(all, 5);
    model_free(base);
}

Test(operator_samplejob, killed_at_any_action_a_due_run_is_made_once)
{
    kill_at_any_action(DAILY());
    kill_at_any_action(DAILY(",\"concurrencyPolicy\":\"Replace\""));
}

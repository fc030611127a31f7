#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "model.h"
#include "sampleset-internal.h"

#define NS  "paddle-system"
#define API "\"apiVersion\":\"batch.paddlepaddle.org/v1alpha1\""
#define SET_NAMED(ns, name, spec)                                                             \
    "{" API ",\"kind\":\"SampleSet\",\"metadata\":{\"name\":\"" name "\",\"namespace\":\"" ns \
    "\"},\"spec\":{" spec "}}"
#define SET(spec) SET_NAMED(NS, "imagenet", spec)
#define NODE      "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":"
#define NODES     NODE "\"n1\",\"labels\":{\"disk\":\"ssd\"}}}," NODE "\"n2\"}}," NODE "\"n3\"}}"
#define URI       "bos://paddleflow-public.hkg.bcebos.com/imagenet"
#define SOURCE    "\"source\":{\"uri\":\"" URI "\"}"
#define ARTICLE   SET("\"partitions\":2," SOURCE ",\"secretRef\":{\"name\":\"imagenet\"}")
#define SECRET(data)                                                                  \
    "{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{\"name\":\"imagenet\"," \
    "\"namespace\":\"" NS "\"},\"data\":{" data "}}"
#define KEYS "\"access-key\":\"QUs=\",\"secret-key\":\"U0s=\""
#define JOB(ns, name, ref)                                                                        \
    "{\"apiVersion\":\"batch.paddlepaddle.org/v1\",\"kind\":\"PaddleJob\",\"metadata\":{\"name\"" \
    ":\"" name "\",\"namespace\":\"" ns "\"},\"spec\":{\"sampleSetRef\":{" ref "}},"              \
    "\"status\":{\"phase\":\"Pending\"}}"

static const char *set_at(struct model *m, const char *path)
{
    return model_at(m, "SampleSet", NS, "imagenet", path);
}

static const char *condition(struct model *m, const char *type)
{
    return model_condition(m, "SampleSet", NS, "imagenet", type);
}

static struct model *article(void)
{
    return model_new("[" ARTICLE "," SECRET(KEYS) "," NODES "]");
}

static struct model *ready(void)
{
    struct model *m = article();
    model_settle(m, 20);
    cr_assert_str_eq(set_at(m, "status|phase"), "Ready", "%s", m->log.data);
    return m;
}

static const char *label_of(struct model *m, const char *node)
{
    return model_at(m, "Node", NULL, node, "metadata|labels|sampan.io/" NS ".imagenet");
}

static const char *old_label_of(struct model *m, const char *node)
{
    return model_at(m, "Node", NULL, node, "metadata|labels|paddlepaddle.org/juicefs-imagenet");
}

/* --- to Ready --------------------------------------------------------------------------------- */

Test(operator_sampleset, the_articles_set_becomes_ready)
{
    struct model *m = ready();
    cr_assert_str_eq(condition(m, "Ready"), "True Ready");
    cr_assert_str_eq(condition(m, "Synced"), "True Listed");
    cr_assert_str_eq(set_at(m, "status|cacheStatus|totalSize"), "976.6 KiB");
    cr_assert_str_eq(set_at(m, "status|cacheStatus|totalFiles"), "1000");
    cr_assert_str_eq(set_at(m, "status|cacheStatus|cachedSize"), "0 B");
    cr_assert_str_eq(set_at(m, "status|cacheStatus|diskAvail"), "1.9 GiB");
    cr_assert_str_eq(set_at(m, "status|runtimeStatus|runtimeReady"), "2/2");
    cr_assert_str_eq(set_at(m, "status|version"), "v2");
    cr_assert_str_eq(set_at(m, "status|order"), "unknown");
    cr_assert_str_eq(set_at(m, "status|partitions|1|node"), "n2");
    cr_assert_str_eq(label_of(m, "n1"), "imagenet-runtime-0");
    cr_assert_str_eq(label_of(m, "n2"), "imagenet-runtime-1");
    cr_assert_str_eq(label_of(m, "n3"), "");
    cr_assert_str_eq(old_label_of(m, "n1"), "imagenet-runtime-0");
    cr_assert_eq(model_event(m, "Warning"), 0);
    cr_assert_eq(model_event(m, "Normal Ready"), 1);
    model_free(m);
}

Test(operator_sampleset, phases_come_in_order)
{
    static const char *const want[] = {"", "Bound", "Syncing", "Ready"};
    struct model *m = article();
    size_t at = 0;
    while (model_pass(m)) {
        if (strcmp(set_at(m, "status|phase"), want[at]) == 0)
            continue;
        cr_assert_lt(++at, sizeof want / sizeof want[0]);
        cr_assert_str_eq(set_at(m, "status|phase"), want[at]);
    }
    cr_assert_str_eq(set_at(m, "status|phase"), "Ready");
    model_free(m);
}

Test(operator_sampleset, rests_when_nothing_changes)
{
    struct model *m = ready();
    int64_t before = m->actions;
    for (int i = 0; i < 5; i++) {
        m->now += 3600;
        cr_assert(!model_pass(m));
        cr_assert(m->again == 0 && m->rests);
    }
    cr_assert_eq(m->actions, before);
    model_free(m);
}

/* --- killed between any two actions ----------------------------------------------------------- */

/* What follows in `base`, with a kill after each number of actions: it comes to what it would have
 * come to. Goes on to that. */
static void walk(struct model **base, size_t jobs, int64_t least)
{
    struct model *m = model_copy(*base), *undisturbed = m;
    m->actions = 0;
    model_settle(m, 20);
    cleanup_free char *want = model_text(m);
    int64_t all = m->actions;
    cr_assert_gt(all, least);
    for (int64_t n = 0; n < all; n++) {
        m = model_copy(*base);
        m->kill_after = n;
        model_settle(m, 20);
        cr_assert(m->killed);
        cleanup_free char *got = model_text(m);
        cr_assert_str_eq(got, want, "killed after %lld actions:\n%s", (long long)n, m->log.data);
        cr_assert_eq(json_object_size(m->jobs), jobs);
        model_free(m);
    }
    model_free(*base);
    *base = undisturbed;
}

Test(operator_sampleset, killed_at_any_action_it_comes_to_the_same)
{
    struct model *m = article();
    walk(&m, 1, 12);
    model_patch(m, "SampleSet", NS, "imagenet", "{\"spec\":{\"partitions\":3}}");
    walk(&m, 1, 3);
    model_patch(m, "SampleSet", NS, "imagenet", "{\"spec\":{\"partitions\":1}}");
    walk(&m, 1, 3);
    model_delete(m, "SampleSet", NS, "imagenet");
    walk(&m, 2, 8);                                                  /* the caches are cleared */
    cr_assert_eq(json_array_size(m->objects), 4, "%s", m->log.data); /* nodes, the user's secret */
    cr_assert_str_eq(label_of(m, "n1"), "");
    cr_assert_str_eq(old_label_of(m, "n1"), "");
    model_free(m);
}

/* --- what users do wrong ---------------------------------------------------------------------- */

struct fault {
    const char *name, *objects;
    const char *type, *condition; /* that says so */
    const char *phase, *event;    /* told once */
};
#define LONG "a2345678901234567890123456789012345678901234567890123456789012x"

static const struct fault faults[] = {
    {"no secret", "[" ARTICLE "," NODES "]", "SecretUsable", "False SecretMissing", "",
     "Warning SecretMissing: there is no Secret paddle-system/imagenet (create it with "
     "access-key "
     "and secret-key, or remove the secretRef)"},
    {"wrong key names",
     "[" ARTICLE "," SECRET("\"user\":\"QUs=\",\"password\":\"U0s=\"") "," NODES "]",
     "SecretUsable", "False WrongKeyNames", "",
     "Warning WrongKeyNames: Secret paddle-system/imagenet holds password, user: want "
     "access-key "
     "and secret-key (write both into it)"},
    {"half a key", "[" ARTICLE "," SECRET("\"access-key\":\"QUs=\"") "," NODES "]", "SecretUsable",
     "False WrongKeyNames", "", "Warning WrongKeyNames"},
    {"secret of another namespace",
     "[" SET(SOURCE ",\"secretRef\":{\"name\":\"x\",\"namespace\":\"kube-system\"}") "," NODES "]",
     "SecretUsable", "False SecretElsewhere", "", "Warning SecretElsewhere"},
    {"no URI", "[" SET("\"source\":{\"uri\":\"imagenet\"}") "," NODES "]", "SourceValid",
     "False InvalidURI", "",
     "Warning InvalidURI: spec.source.uri: \"imagenet\" is no URI (want "
     "SCHEME://BUCKET.ENDPOINT/PREFIX)"},
    {"scheme", "[" SET("\"source\":{\"uri\":\"ftp://a/b\"}") "," NODES "]", "SourceValid",
     "False InvalidURI", "", "Warning InvalidURI"},
    {"no source", "[" SET("\"partitions\":1") "," NODES "]", "SourceValid", "False NoSource", "",
     "Warning NoSource"},
    {"claim that is not there",
     "[" SET("\"source\":{\"persistentVolumeClaim\":{\"name\":\"c\"}}") "," NODES "]",
     "SourceValid", "False ClaimMissing", "", "Warning ClaimMissing"},
    {"partitions 0", "[" SET("\"partitions\":0," SOURCE) "," NODES "]", "SpecValid",
     "False InvalidSpec", "", "Warning InvalidSpec: spec.partitions: want 1 to 1000, got 0"},
    {"more partitions than nodes", "[" SET("\"partitions\":4," SOURCE) "," NODES "]", "NodesFound",
     "False TooFewNodes", "PartialReady",
     "Warning TooFewNodes: 4 partitions want as many nodes, 3 of 3 fit (add nodes, or "
     "lower "
     "spec.partitions)"},
    {"no node fits", "[" SET("\"nodeSelector\":{\"disk\":\"nvme\"}," SOURCE) "," NODES "]",
     "NodesFound", "False NoNodeFits", "Bound", "Warning NoNodeFits"},
    {"cache path",
     "[" SET("\"cache\":{\"levels\":[{\"mediumType\":\"SSD\",\"path\":\"/a..b:data/"
             "b\"}]}," SOURCE) "," NODES "]",
     "SpecValid", "False InvalidSpec", "",
     "Warning InvalidSpec: spec.cache.levels[0].path: \"data/b\" is no absolute folder"},
    {"a value of a newer version",
     "[" SET("\"cache\":{\"profile\":\"tiles\"}," SOURCE) "," NODES "]", "SpecValid",
     "False InvalidSpec", "", "Warning InvalidSpec: spec.cache.profile: \"tiles\": want one of"},
    {"a member of a newer version", "[" SET("\"future\":{\"a\":1}," SOURCE) "," NODES "]", "Ready",
     "True Ready", "Ready", NULL},
    {"options without a counterpart",
     "[" SET("\"csi\":{\"driver\":\"juicefs\",\"juiceFSMountOptions\":{\"cache-size\":\"1024\","
             "\"writeback\":true}}," SOURCE) "," NODES "]",
     "OptionsKnown", "False UnknownOptions", "Ready",
     "Warning UnknownOptions: these options of spec.csi have no counterpart and are not "
     "used: writeback (docs/csi.md lists those that have)"},
    {"name of somebody else's volume",
     "[" SET(SOURCE) "," NODES
                     ",{\"apiVersion\":\"v1\",\"kind\":\"PersistentVolume\",\"metadata\":{"
                     "\"name\":\"" NS ".imagenet\"}}]",
     "VolumeBound", "False NameTaken", "", "Warning NameTaken"},
    {"no such time zone",
     "[" SET("\"refresh\":{\"cron\":\"@daily\",\"timeZone\":\"Mars/Base\"}," SOURCE) "," NODES "]",
     "Refreshed", "False InvalidSchedule", "Ready", "Warning InvalidSchedule"},
};

Test(operator_sampleset, says_once_what_is_wrong)
{
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        const struct fault *f = &faults[i];
        struct model *m = model_new(f->objects);
        model_settle(m, 10);
        cr_expect_str_eq(condition(m, f->type), f->condition, "%s: %s\n%s", f->name,
                         condition(m, f->type), m->log.data);
        cr_expect_str_eq(set_at(m, "status|phase"), f->phase, "%s: %s", f->name,
                         set_at(m, "status|phase"));
        cr_expect_eq(model_event(m, f->event ? f->event : "Warning"), f->event ? 1 : 0, "%s:\n%s",
                     f->name, m->log.data);
        cr_expect_eq(model_event(m, "Warning"), f->event ? 1 : 0, "%s", f->name);
        model_free(m);
    }
}

/* One event, however often it is started again. */
Test(operator_sampleset, says_why_a_server_does_not_start)
{
    struct model *m = ready();
    for (int i = 0; i < 3; i++) {
        model_patch(
            m, "Pod", NS, "imagenet-runtime-1",
            i % 2 ? "{\"status\":{\"conditions\":[],\"containerStatuses\":[{\"state\":{"
                    "\"waiting\":{\"reason\":\"CrashLoopBackOff\"},\"terminated\":null},"
                    "\"lastState\":{\"terminated\":{\"exitCode\":1,\"message\":\"one\\nno such disk"
                    "\\n\"}}}]}}"
                  : "{\"status\":{\"conditions\":[],\"containerStatuses\":[{\"state\":{"
                    "\"terminated\":{\"exitCode\":1,\"message\":\"one\\nno such disk\\n\"}}}]}}");
        model_settle(m, 2);
        cr_assert_str_eq(condition(m, "ServersReady"), "False ServerFails");
        cr_assert_eq(model_event(m, "Warning ServerFails: imagenet-runtime-1: CrashLoopBackOff "
                                    "(exit code 1): no such disk"),
                     1, "%s", m->log.data);
    }
    model_free(m);
}

/* A server that is replaced, as when their number changes, ends because it was told to. */
Test(operator_sampleset, one_that_is_replaced_is_no_failure)
{
    struct model *m = ready();
    model_patch(m, "Pod", NS, "imagenet-runtime-1",
                "{\"metadata\":{\"deletionTimestamp\":\"2026-11-21T00:00:00Z\",\"finalizers\":["
                "\"a/b\"]},\"status\":{\"conditions\":[],\"containerStatuses\":[{\"state\":{"
                "\"terminated\":{\"exitCode\":0}}}]}}");
    model_settle(m, 2);
    cr_expect_str_eq(condition(m, "ServersReady"), "False Starting");
    cr_expect_eq(model_event(m, "Warning"), 0, "%s", m->log.data);
    model_free(m);
}

Test(operator_sampleset, goes_on_when_the_secret_is_there)
{
    struct model *m = model_new("[" ARTICLE "," NODES "]");
    model_settle(m, 3);
    cr_assert_eq(m->again, 15);
    model_add(m, SECRET(KEYS));
    model_settle(m, 20);
    cr_assert_str_eq(set_at(m, "status|phase"), "Ready");
    model_free(m);
}

/* --- whose keys ------------------------------------------------------------------------------- */

Test(operator_sampleset, keys_of_another_store_are_not_used)
{
    /* storage: bos, bucket: https://other.bj.bcebos.com */
    struct model *m = model_new("[" ARTICLE "," SECRET(
        KEYS ",\"name\":\"aW1hZ2VuZXQ=\",\"storage\":\"Ym9z\","
             "\"metaurl\":\"cmVkaXM6Ly9y\","
             "\"bucket\":\"aHR0cHM6Ly9vdGhlci5iai5iY2Vib3MuY29t\"") "," NODES "]");
    model_settle(m, 20);
    cr_assert_str_eq(condition(m, "SecretUsable"), "True KeysOfAnotherStore");
    cr_assert_str_eq(model_at(m, "PersistentVolume", NULL, NS ".imagenet",
                              "spec|csi|volumeAttributes|anonymous"),
                     "true");
    cr_assert_str_eq(
        model_at(m, "PersistentVolume", NULL, NS ".imagenet", "spec|csi|nodePublishSecretRef|name"),
        "");
    cr_assert_str_eq(set_at(m, "status|phase"), "Ready");
    model_free(m);
}

Test(operator_sampleset, knows_which_store_a_secret_is_of)
{
    static const struct {
        const char *uri, *endpoint, *storage, *bucket;
        bool other;
    } rows[] = {
        {URI, NULL, NULL, NULL, false},
        {URI, NULL, "bos", "https://paddleflow-public.hkg.bcebos.com", false},
        {URI, NULL, "bos", "https://paddleflow-public.hkg.bcebos.com/", false},
        {URI, NULL, "bos", "paddleflow-public", false},
        {URI, NULL, "s3", "https://paddleflow-public.hkg.bcebos.com", true},
        {URI, NULL, "bos", "https://mine.bj.bcebos.com", true},
        {URI, NULL, NULL, "https://mine.bj.bcebos.com", true},
        {"s3://data/x", "http://minio:9000", "minio", "http://minio:9000/data", false},
        {"s3://data/x", "http://minio:9000", "minio", "http://minio:9000/other", true},
        {"s3://data/x", "http://minio:9000", "minio", "http://elsewhere:9000/data", true},
        {"s3://data/x", NULL, "s3", "https://data.s3.amazonaws.com", false},
        {"s3://data/x", NULL, "s3", "https://data2.s3.amazonaws.com", true},
        {"s3://data/x", NULL, "s3", "data", false},
        {"minio://minio:9000/data/x", NULL, "minio", "http://minio:9000/data", false},
        {"minio://minio:9000/data/x", NULL, "minio", "http://minio:9000/other", true},
        {"http://h/x", NULL, "s3", NULL, true},
        {"s3://data/x", NULL, "unheard-of", NULL, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct set_store s = {.uri = rows[i].uri, .endpoint = rows[i].endpoint};
        cr_expect_eq(store_is_other(&s, rows[i].storage, rows[i].bucket), rows[i].other, "row %zu",
                     i);
    }
}

Test(operator_sampleset, uris_that_cannot_be_used_are_explained)
{
    static const struct {
        const char *uri, *why; /* NULL: nothing */
    } rows[] = {
        {URI, NULL},
        {"s3://bucket/prefix", NULL},
        {"minio://h:9000/b/p", NULL},
        {"file:///data/set", NULL},
        {"file:///data/..2026/set", NULL},
        {"hdfs://nn/a", NULL},
        {"file://host/data", "no absolute folder"},
        {"file:///a/../b", "no absolute folder"},
        {"s3:///x", "names no bucket"},
        {"s3://key:secret@bucket/x", "a password in it"},
        {"s3://a b/c", "a blank"},
        {"gopher://a/b", "no kind of store"},
        {"", "is no URI"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cleanup_free char *why = store_uri_check(rows[i].uri);
        cr_expect(rows[i].why ? why && strstr(why, rows[i].why) : !why, "%s: %s", rows[i].uri,
                  why ? why : "");
        cr_expect(!why || !strstr(why, "secret@"), "%s", why);
    }
}

/* --- the volume ------------------------------------------------------------------------------- */

Test(operator_sampleset, the_volume_says_what_the_driver_wants)
{
    struct model *m = model_new("[" SET(
        "\"source\":{\"uri\":\"s3://data/x\",\"endpoint\":\"http://minio:9000\"},"
        "\"cache\":{\"memory\":\"512Mi\",\"profile\":\"shards\",\"levels\":[{\"mediumType\":"
        "\"MEM\",\"path\":\"/dev/shm\",\"cacheSize\":100},{\"mediumType\":\"SSD\",\"path\":"
        "\"/a:/b/\",\"cacheSize\":2048}]},"
        "\"csi\":{\"driver\":\"juicefs\",\"mountOptions\":{\"bandwidth\":\"50Mbit\"},"
        "\"juiceFSMountOptions\":{\"cache-dir\":\"/z\",\"buffer-size\":300}}") "," NODES "]");
    model_settle(m, 20);
    cleanup_free char *spec = json_dumps(
        json_object_get(model_get(m, "PersistentVolume", NULL, NS ".imagenet"), "spec"), 0);
    cr_assert_str_eq(
        spec,
        "{\"capacity\": {\"storage\": \"10Pi\"}, \"accessModes\": [\"ReadOnlyMany\"], "
        "\"volumeMode\": \"Filesystem\", \"persistentVolumeReclaimPolicy\": \"Retain\", "
        "\"storageClassName\": \"\", \"claimRef\": {\"apiVersion\": \"v1\", \"kind\": "
        "\"PersistentVolumeClaim\", \"namespace\": \"paddle-system\", \"name\": \"imagenet\"}, "
        "\"mountOptions\": [\"bandwidth=50Mbit\", \"buffer-size=300\"], \"csi\": {\"driver\": "
        "\"csi.sampan.io\", \"volumeHandle\": \"paddle-system.imagenet\", \"readOnly\": true, "
        "\"volumeAttributes\": {\"uri\": \"s3://data/x\", \"endpoint\": \"http://minio:9000\", "
        "\"cache\": \"mem:/dev/shm/paddle-system.imagenet=100MiB,"
        "ssd:/a/paddle-system.imagenet=1024MiB,ssd:/b/paddle-system.imagenet=1024MiB\", "
        "\"memory\": \"536870912\", \"profile\": \"shards\"}}}");
    cr_assert_str_eq(condition(m, "OptionsKnown"), "False UnknownOptions"); /* cache-dir */
    model_free(m);
}

Test(operator_sampleset, a_volume_that_lost_its_claim_is_made_anew)
{
    struct model *m = ready();
    model_delete(m, "PersistentVolumeClaim", NS, "imagenet");
    model_delete(m, "Pod", NS, "imagenet-runtime-0");
    model_delete(m, "Pod", NS, "imagenet-runtime-1");
    model_settle(m, 20);
    cr_assert_str_eq(set_at(m, "status|phase"), "Ready", "%s", m->log.data);
    cr_assert_str_eq(model_at(m, "PersistentVolume", NULL, NS ".imagenet", "status|phase"),
                     "Bound");
    model_free(m);
}

/* --- who may use it --------------------------------------------------------------------------- */

Test(operator_sampleset, sets_of_one_name_do_not_collide)
{
    struct model *m =
        model_new("[" SET(SOURCE) "," SET_NAMED("other", "imagenet", SOURCE) "," NODES "]");
    model_settle(m, 20);
    cr_assert_str_eq(set_at(m, "status|phase"), "Ready");
    cr_assert_str_eq(model_at(m, "SampleSet", "other", "imagenet", "status|phase"), "Ready");
    cr_assert_eq(model_count(m, "PersistentVolume"), 2);
    cr_assert_str_eq(label_of(m, "n1"), "imagenet-runtime-0");
    cr_assert_str_eq(model_at(m, "Node", NULL, "n1", "metadata|labels|sampan.io/other.imagenet"),
                     "imagenet-runtime-0");
    model_delete(m, "SampleSet", "other", "imagenet");
    model_settle(m, 20);
    cr_assert_str_eq(label_of(m, "n1"), "imagenet-runtime-0");
    cr_assert_eq(model_count(m, "PersistentVolume"), 1);
    model_free(m);
}

Test(operator_sampleset, a_job_elsewhere_gets_a_claim_where_the_set_is_shared)
{
    struct model *m = model_new("[" SET("\"sharedTo\":[\"default\"]," SOURCE) "," NODES "," JOB(
        "default", "resnet",
        "\"name\":\"imagenet\"") "," JOB("default", "again",
                                         "\"name\":\"imagenet\"") "," JOB("secret", "thief",
                                                                          "\"name\":\"imagenet\","
                                                                          "\"namespace\":\"" NS
                                                                          "\"") "]");
    model_settle(m, 20);
    cr_assert_eq(model_count(m, "PersistentVolumeClaim"), 2);
    cr_assert_eq(model_count(m, "PersistentVolume"), 2);
    cr_assert_str_eq(
        model_at(m, "PersistentVolumeClaim", "default", NS ".imagenet", "status|phase"), "Bound");
    cr_assert_str_neq(
        model_at(m, "PersistentVolume", NULL, NS ".imagenet.for.default", "spec|csi|volumeHandle"),
        model_at(m, "PersistentVolume", NULL, NS ".imagenet", "spec|csi|volumeHandle"));
    cr_assert_str_eq(set_at(m, "status|usedBy|0"), "default/again");
    cr_assert_str_eq(set_at(m, "status|usedBy|2"), "");
    model_free(m);
}

Test(operator_sampleset, is_not_deleted_while_jobs_use_it)
{
    struct model *m =
        model_new("[" SET(SOURCE) "," NODES "," JOB(NS, "resnet", "\"name\":\"imagenet\"") "]");
    model_settle(m, 20);
    model_delete(m, "SampleSet", NS, "imagenet");
    model_settle(m, 20);
    cr_assert_str_eq(condition(m, "Deletion"), "False InUse");
    cr_assert_eq(model_event(m, "Warning InUse: the set is deleted when these jobs are over: "
                                "paddle-system/resnet"),
                 1);
    cr_assert_str_eq(label_of(m, "n1"), "imagenet-runtime-0");
    m->now += 3600; /* however long it was: the caches are cleared */
    model_patch(m, "PaddleJob", NS, "resnet", "{\"status\":{\"phase\":\"Completed\"}}");
    model_settle(m, 20);
    cr_assert(!model_get(m, "SampleSet", NS, "imagenet"));
    cr_assert(strstr(m->log.data, "clear-for-deletion"), "%s", m->log.data);
    cr_assert_eq(json_array_size(m->objects), 4);
    model_free(m);
}

Test(operator_sampleset, ends_though_its_servers_do_not_answer)
{
    struct model *m = ready();
    m->away = true;
    model_delete(m, "SampleSet", NS, "imagenet");
    model_settle(m, 60);
    cr_assert(!model_get(m, "SampleSet", NS, "imagenet"));
    model_free(m);
}

/* --- while it runs ---------------------------------------------------------------------------- */

Test(operator_sampleset, partitions_change_while_it_runs)
{
    struct model *m = ready();
    model_patch(m, "SampleSet", NS, "imagenet", "{\"spec\":{\"partitions\":3}}");
    model_settle(m, 20);
    cr_assert_str_eq(set_at(m, "status|runtimeStatus|runtimeReady"), "3/3");
    cr_assert_str_eq(set_at(m, "status|phase"), "Ready");
    cr_assert_str_eq(label_of(m, "n3"), "imagenet-runtime-2");
    cr_assert_str_eq(label_of(m, "n1"), "imagenet-runtime-0");
    model_patch(m, "SampleSet", NS, "imagenet", "{\"spec\":{\"partitions\":1}}");
    model_settle(m, 20);
    cr_assert_str_eq(set_at(m, "status|runtimeStatus|runtimeReady"), "1/1");
    cr_assert_str_eq(label_of(m, "n2"), "");
    cr_assert_str_eq(old_label_of(m, "n3"), "");
    cr_assert_str_eq(label_of(m, "n1"), "imagenet-runtime-0");
    cr_assert_str_eq(set_at(m, "status|partitions|1|pod"), "");
    model_free(m);
}

Test(operator_sampleset, a_pod_that_restarts_comes_back_to_its_cache)
{
    struct model *m = ready();
    model_delete(m, "Pod", NS, "imagenet-runtime-1");
    model_pass(m);
    cr_assert_str_eq(label_of(m, "n2"), "imagenet-runtime-1"); /* while it is away */
    model_settle(m, 20);
    cr_assert_str_eq(model_at(m, "Pod", NS, "imagenet-runtime-1", "spec|nodeName"), "n2");
    cr_assert_str_eq(set_at(m, "status|phase"), "Ready");
    model_free(m);
}

Test(operator_sampleset, a_lost_node_loses_its_label)
{
    struct model *m = ready();
    model_patch(m, "Node", NULL, "n2", "{\"spec\":{\"unschedulable\":true}}");
    model_delete(m, "Pod", NS, "imagenet-runtime-1");
    json_t *node = model_get(m, "Node", NULL, "n2");
    json_object_set_new(node, "kind", json_string("Lost")); /* the scheduler passes it over */
    model_settle(m, 20);
    json_object_set_new(node, "kind", json_string("Node"));
    model_settle(m, 20);
    cr_assert_str_eq(label_of(m, "n3"), "imagenet-runtime-1");
    cr_assert_str_eq(label_of(m, "n2"), "");
    cr_assert_str_eq(set_at(m, "status|phase"), "Ready");
    model_free(m);
}

Test(operator_sampleset, a_listing_that_fails_is_tried_again_later_and_later)
{
    struct model *m = article();
    m->jobs_end = "failed";
    m->job_error = "list: 403 AccessDenied";
    model_settle(m, 1);
    cr_assert_str_eq(set_at(m, "status|phase"), "SyncFailed");
    cr_assert_str_eq(condition(m, "Synced"), "False Failed");
    cr_assert_eq(model_event(m, "Warning Failed: list: 403 AccessDenied"), 1);
    cr_assert_geq(m->again, 50);
    int64_t since = m->now;
    size_t tries = json_object_size(m->jobs);
    while (json_object_size(m->jobs) < tries + 3)
        model_settle(m, 1);
    cr_assert_geq(m->now - since, 60 + 120 + 240 - 10);
    m->jobs_end = "succeeded";
    model_settle(m, 30);
    cr_assert_str_eq(set_at(m, "status|phase"), "Ready");
    model_free(m);
}

Test(operator_sampleset, without_sync_nothing_is_asked_of_the_source)
{
    struct model *m = model_new("[" SET("\"noSync\":true," SOURCE) "," NODES "]");
    model_settle(m, 20);
    cr_assert_str_eq(set_at(m, "status|phase"), "Ready");
    cr_assert_str_eq(condition(m, "Synced"), "True NotWanted");
    cr_assert_eq(json_object_size(m->jobs), 0);
    model_free(m);
}

Test(operator_sampleset, copies_first_where_a_destination_is_given)
{
    struct model *m = model_new(
        "[" SET(SOURCE ",\"secretRef\":{\"name\":\"imagenet\"},\"sync\":{\"destination\":"
                       "\"s3://near/imagenet\",\"delete\":true}") "," SECRET(KEYS) "," NODES "]");
    model_settle(m, 30);
    cr_assert_str_eq(set_at(m, "status|phase"), "Ready", "%s", m->log.data);
    cr_assert_eq(json_object_size(m->jobs), 2);
    cr_assert(strstr(m->log.data,
                     "\"type\":\"sync\",\"options\":{\"sources\":[\"" URI "\"],\"destination\":"
                     "\"s3://near/imagenet\",\"deleteDst\":true,\"credentials\":{\"accessKeyId\":"
                     "\"AK\",\"secretAccessKey\":\"SK\"},\"destinationCredentials\":{"));
    cr_assert_str_eq(
        model_at(m, "PersistentVolume", NULL, NS ".imagenet", "spec|csi|volumeAttributes|uri"),
        "s3://near/imagenet");
    cr_assert_str_eq(condition(m, "Synced"), "True Copied");
    model_free(m);
}

Test(operator_sampleset, looks_at_the_source_again_by_the_clock)
{
    struct model *m = model_new("[" SET("\"refresh\":{\"cron\":\"0 3 * * *\",\"timeZone\":\"Asia/"
                                        "Shanghai\"}," SOURCE) "," NODES "]");
    /* 03:00 in Shanghai is 19:00 UTC; it began at 2027-01-15T08:00:00Z. */
    m->until = m->now + 10 * 3600;
    model_settle(m, 20);
    cr_assert_str_eq(set_at(m, "status|phase"), "Ready");
    cr_assert_eq(json_object_size(m->jobs), 1);
    m->until += 7200;
    model_settle(m, 20);
    cr_assert_str_eq(set_at(m, "status|refreshedAt"), "2027-01-15T19:00:00Z");
    cr_assert_eq(json_object_size(m->jobs), 2);
    cr_assert_str_eq(set_at(m, "status|phase"), "Ready");
    cr_assert_str_eq(condition(m, "Refreshed"), "True Refreshed");
    m->now += 5 * 86400; /* the operator was away: one look is enough */
    m->until = m->now + 3600;
    model_settle(m, 20);
    cr_assert_eq(json_object_size(m->jobs), 3);
    model_patch(m, "SampleSet", NS, "imagenet", "{\"spec\":{\"version\":\"v1\"}}");
    m->now += 5 * 86400;
    m->until = m->now + 3600;
    model_settle(m, 20);
    cr_assert_eq(json_object_size(m->jobs), 3); /* a pinned version stays */
    cr_assert_str_eq(condition(m, "VersionServed"), "True Pinned");
    model_free(m);
}

/* --- by itself -------------------------------------------------------------------------------- */

Test(operator_sampleset, has_as_many_partitions_as_hold_it)
{
    struct model *m = model_new("[" SET("\"partitions\":1,\"autoscale\":{\"minPartitions\":1,"
                                        "\"maxPartitions\":3}," SOURCE) "," NODES "]");
    m->limit = 600000; /* of a set of 1 000 000 bytes */
    model_settle(m, 30);
    cr_assert_str_eq(set_at(m, "status|runtimeStatus|runtimeReady"), "2/2", "%s", m->log.data);
    m->limit = 590000;
    model_settle(m, 30);
    cr_assert_str_eq(set_at(m, "status|runtimeStatus|runtimeReady"), "2/2");
    m->limit = 200000;
    model_patch(m, "SampleSet", NS, "imagenet", "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}");
    model_settle(m, 30);
    cr_assert_str_eq(set_at(m, "status|runtimeStatus|runtimeReady"), "3/3");
    cr_assert_str_eq(condition(m, "Autoscaled"), "False AtMaximum");
    cr_assert(m->again > 0 && m->again < 100, "nobody looks at the room: %u", m->again);
    m->limit = 5000000;
    model_settle(m, 30);
    cr_assert_str_eq(set_at(m, "status|runtimeStatus|runtimeReady"), "1/1");
    model_free(m);
}

Test(operator_sampleset, grows_while_too_few_reads_are_local)
{
    struct model *m = model_new("[" SET(
        "\"partitions\":1,\"autoscale\":{\"minPartitions\":1,"
        "\"maxPartitions\":3,\"by\":\"HitRatio\",\"hitPercent\":90}," SOURCE) "," NODES "]");
    m->limit = 600000;
    model_settle(m, 30);
    cr_assert_str_eq(set_at(m, "status|runtimeStatus|runtimeReady"), "1/1");
    cr_assert(m->again > 0 && m->again < 100, "nobody looks at the reads: %u", m->again);
    m->reads = 5000;
    m->local = 2000;
    m->cached = 500000;
    model_settle(m, 30);
    cr_assert_str_eq(set_at(m, "status|runtimeStatus|runtimeReady"), "2/2");
    m->now += 3600; /* the same reads say nothing new */
    model_settle(m, 30);
    cr_assert_str_eq(set_at(m, "status|runtimeStatus|runtimeReady"), "2/2");
    cr_assert_eq(model_event(m, "Normal Scaled: from 1 partitions to 2 by HitRatio"), 1);
    model_free(m);
}

/* --- names ------------------------------------------------------------------------------------ */

Test(operator_sampleset, long_names_fit_everywhere)
{
    struct model *m = model_new("[" SET_NAMED(LONG, LONG, SOURCE) "," NODES "]");
    model_settle(m, 20);
    cr_assert_str_eq(model_at(m, "SampleSet", LONG, LONG, "status|phase"), "Ready");
    cleanup_free char *sts = part_runtime_name(LONG), *service = part_service_name(LONG);
    cleanup_free char *label = part_node_label(LONG, LONG), *value = part_node_value(LONG, 999);
    cr_assert_leq(strlen(sts), 52); /* its pods' revision label */
    cr_assert_leq(strlen(service), 63);
    cr_assert_leq(strlen(value), 63);
    cr_assert_leq(strlen(label), strlen("sampan.io/") + 63);
    cr_assert_str_eq(part_text(&(struct json){0}, "x") ? "" : "none", "none");
    model_free(m);
}

Test(operator_sampleset, names_that_differ_stay_different)
{
    static const char *const names[] = {"a.b", "a-b", LONG, LONG "y", "a"};
    for (size_t i = 0; i < 5; i++)
        for (size_t k = 0; k < i; k++) {
            cleanup_free char *x = part_runtime_name(names[i]), *y = part_runtime_name(names[k]);
            cr_expect_str_neq(x, y);
            cr_expect(!strchr(x, '.'));
        }
}

Test(operator_sampleset, a_token_is_of_one_service)
{
    cleanup_free char *a = part_server_token("key", "ns", "a"),
                      *b = part_server_token("key", "ns", "b");
    cleanup_free char *url = part_server_url("ns", "a", 7, "/v1/jobs/x");
    cleanup_free char *same = part_url_token("key", url), *other = part_url_token("kez", url);
    cr_assert_str_eq(url, "http://a-runtime-7.a-runtime-service.ns:7716/v1/jobs/x");
    cr_assert_str_eq(a, same);
    cr_assert_str_neq(a, b);
    cr_assert_str_neq(a, other);
    cr_assert_null(part_url_token("key", "http://example.com/v1"));
    cr_assert_null(part_url_token("key", "http://localhost:7716/v1.0"));
}

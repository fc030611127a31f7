/* Where a set's samples are: claims in place of a URI, and several sources. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "mem.h"
#include "model.h"

#define NS   "ai"
#define NODE "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n1\"}}"
#define SET(spec)                                                                               \
    "{\"apiVersion\":\"batch.paddlepaddle.org/v1alpha1\",\"kind\":\"SampleSet\",\"metadata\":{" \
    "\"name\":\"s\",\"namespace\":\"" NS "\"},\"spec\":{" spec "}}"
#define CLAIM_THAT_IS(phase, spec)                                                      \
    "{\"apiVersion\":\"v1\",\"kind\":\"PersistentVolumeClaim\",\"metadata\":{\"name\":" \
    "\"data\",\"namespace\":\"" NS "\"},\"spec\":{" spec "},\"status\":{\"phase\":\"" phase "\"}}"
#define CLAIM(spec) CLAIM_THAT_IS("Bound", spec)
#define VOLUME(spec)                                                                      \
    "{\"apiVersion\":\"v1\",\"kind\":\"PersistentVolume\",\"metadata\":{\"name\":\"v\"}," \
    "\"spec\":{" spec "},\"status\":{\"phase\":\"Bound\"}}"
#define BY_CLAIM(more) "\"source\":{\"persistentVolumeClaim\":{\"name\":\"data\"}" more "}"
#define BOUND          CLAIM("\"volumeName\":\"v\"")
#define OURS(attributes)                                                   \
    VOLUME("\"csi\":{\"driver\":\"csi.sampan.io\",\"volumeHandle\":\"v\"," \
           "\"volumeAttributes\":{" attributes "}}")
#define SECRET(name)                                                                  \
    "{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{\"name\":\"" name "\"," \
    "\"namespace\":\"" NS "\"},\"data\":{\"access-key\":\"QQ==\",\"secret-key\":\"Qg==\"}}"
#define STORE "\"uri\":\"s3://b/p\",\"endpoint\":\"http://minio:9000\",\"region\":\"eu\""

static struct model *settled(const char *set, const char *more)
{
    cleanup_free char *text = xasprintf("[%s," NODE "%s%s]", set, *more ? "," : "", more);
    struct model *m = model_new(text);
    model_settle(m, 20);
    return m;
}

static void expect_attribute(struct model *m, const char *name, const char *want, size_t row)
{
    cleanup_free char *path = xasprintf("spec|csi|volumeAttributes|%s", name);
    const char *got = model_at(m, "PersistentVolume", NULL, NS ".s", path);
    cr_expect_str_eq(got, want, "row %zu: %s is %s\n%s", row, name, got, m->log.data);
}

Test(operator_source, a_claim_that_nodes_can_reach_without_it)
{
    static const struct {
        const char *set, *volume, *uri, *endpoint, *region;
    } rows[] = {
        {SET(BY_CLAIM("")), VOLUME("\"hostPath\":{\"path\":\"/data/set\"}"), "file:///data/set", "",
         ""},
        {SET(BY_CLAIM(",\"path\":\"/train\"")), VOLUME("\"local\":{\"path\":\"/mnt/disk\"}"),
         "file:///mnt/disk/train", "", ""},
        {SET(BY_CLAIM("")), OURS(STORE), "s3://b/p", "http://minio:9000", "eu"},
        {SET(BY_CLAIM(",\"path\":\"train\"")), OURS("\"uri\":\"s3://b/p/\""), "s3://b/p/train", "",
         ""},
        {SET(BY_CLAIM(",\"endpoint\":\"http://nearer:9000\"")), OURS(STORE), "s3://b/p",
         "http://nearer:9000", "eu"},
        /* Dots in a name lead nowhere. */
        {SET(BY_CLAIM(",\"path\":\"v1..2/..train\"")), VOLUME("\"local\":{\"path\":\"/mnt/disk\"}"),
         "file:///mnt/disk/v1..2/..train", "", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cleanup_free char *more = xasprintf(BOUND ",%s", rows[i].volume);
        struct model *m = settled(rows[i].set, more);
        expect_attribute(m, "uri", rows[i].uri, i);
        expect_attribute(m, "endpoint", rows[i].endpoint, i);
        expect_attribute(m, "region", rows[i].region, i);
        cr_expect_str_eq(model_condition(m, "SampleSet", NS, "s", "SourceValid"), "True Parsed",
                         "row %zu", i);
        model_free(m);
    }
}

Test(operator_source, a_claim_that_cannot_be_used_is_explained)
{
    static const struct {
        const char *set, *more, *reason;
    } rows[] = {
        {SET(BY_CLAIM("")), "", "ClaimMissing"},
        {SET("\"source\":{\"persistentVolumeClaim\":{\"name\":\"data\",\"namespace\":\"other\"}}"),
         BOUND, "ClaimElsewhere"},
        {SET(BY_CLAIM("")), CLAIM(""), "ClaimPending"},
        /* Who makes a claim may name any volume in it. */
        {SET(BY_CLAIM("")), CLAIM_THAT_IS("Pending", "\"volumeName\":\"v\"") "," OURS(STORE),
         "ClaimPending"},
        {SET(BY_CLAIM("")), BOUND, "ClaimUnknown"},
        {SET(BY_CLAIM(",\"path\":\"../etc\"")),
         BOUND "," VOLUME("\"hostPath\":{\"path\":\"/data\"}"), "InvalidPath"},
        {SET(BY_CLAIM("")), BOUND "," VOLUME("\"nfs\":{\"server\":\"h\",\"path\":\"/x\"}"),
         "ClaimUnsupported"},
        {SET(BY_CLAIM("")),
         BOUND "," VOLUME("\"csi\":{\"driver\":\"other\",\"volumeAttributes\":{\"uri\":\"x\"}}"),
         "ClaimUnsupported"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct model *m = settled(rows[i].set, rows[i].more);
        cleanup_free char *want = xasprintf("False %s", rows[i].reason);
        cleanup_free char *event = xasprintf("Warning %s", rows[i].reason);
        const char *got = model_condition(m, "SampleSet", NS, "s", "SourceValid");
        cr_expect_str_eq(got, want, "row %zu: %s", i, got);
        cr_expect_eq(model_event(m, event), 1, "row %zu:\n%s", i, m->log.data);
        cr_expect_eq(model_count(m, "StatefulSet"), 0, "row %zu", i);
        model_free(m);
    }
}

/* What a claim leads to an administrator has made; a URI is the word of whoever makes sets. */
Test(operator_source, folders_of_nodes_are_those_that_are_allowed)
{
    static const struct {
        const char *set;
        bool ok;
    } rows[] = {
        {SET("\"source\":{\"uri\":\"file:///data/sets\"}"), true},
        {SET("\"source\":{\"uri\":\"file:///data/sets/a\"}"), true},
        {SET("\"source\":{\"uri\":\"file:///data/sets-of-others\"}"), false},
        {SET("\"source\":{\"uri\":\"file:///\"}"), false},
        {SET("\"source\":{\"uri\":\"file:///etc\"}"), false},
        {SET("\"source\":{\"uri\":\"file:////data/sets\"}"), false},
        {SET("\"sources\":[{\"uri\":\"file:///etc\",\"at\":\"a/\"},"
             "{\"uri\":\"s3://b/q\",\"at\":\"b/\"}]"),
         false},
        {SET("\"source\":{\"uri\":\"s3://b/q\"},\"sync\":{\"destination\":\"file:///etc\"}"),
         false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct model *m = settled(rows[i].set, "");
        const char *got = model_condition(m, "SampleSet", NS, "s", "SourceValid");
        cr_expect_str_eq(got, rows[i].ok ? "True Parsed" : "False FolderOfNode", "row %zu: %s", i,
                         got);
        cr_expect_eq(model_count(m, "PersistentVolume") > 0, rows[i].ok, "row %zu", i);
        model_free(m);
    }
}

/* Neither by an option, nor by one within another: the driver parts them at commas. */
Test(operator_source, options_name_no_folder_either)
{
    struct model *m =
        settled(SET("\"source\":{\"uri\":\"s3://b/"
                    "q\"},\"csi\":{\"mountOptions\":{\"region\":\"x,uri=file:///etc\","
                    "\"catalogs\":\"file:///x/../etc\",\"memory\":\"1GiB\"}}"),
                "");
    cr_expect_str_eq(model_condition(m, "SampleSet", NS, "s", "OptionsKnown"),
                     "False RefusedOptions");
    cr_expect_eq(model_event(m, "Warning RefusedOptions: these options of spec.csi are not used: "
                                "catalogs is a folder of the nodes, region has a comma in it"),
                 1, "%s", m->log.data);
    cr_expect_str_eq(model_at(m, "PersistentVolume", NULL, NS ".s", "spec|mountOptions|0"),
                     "memory=1GiB");
    cr_expect_str_eq(model_at(m, "PersistentVolume", NULL, NS ".s", "spec|mountOptions|1"), "");
    model_free(m);
}

/* What the driver would refuse when the first pod comes, and no set can change later. */
Test(operator_source, an_endpoint_is_a_url_without_keys)
{
    static const struct {
        const char *endpoint, *condition;
    } rows[] = {
        {"https://s3.example.com", "True Parsed"},
        {"http://10.0.0.1:9000", "True Parsed"},
        {"", "True Parsed"},
        {"s3.example.com", "False InvalidEndpoint"},
        {"ftp://s3.example.com", "False InvalidEndpoint"},
        {"https://key:hush@s3.example.com", "False InvalidEndpoint"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cleanup_free char *set = xasprintf(
            SET("\"source\":{\"uri\":\"s3://b/p\",\"endpoint\":\"%s\"}"), rows[i].endpoint);
        struct model *m = settled(set, "");
        cr_expect_str_eq(model_condition(m, "SampleSet", NS, "s", "SourceValid"), rows[i].condition,
                         "%s", rows[i].endpoint);
        cr_expect_eq(model_count(m, "StatefulSet"), *rows[i].condition == 'T');
        model_free(m);
    }
}

static struct model *changed(const char *patch)
{
    struct model *m = settled(SET("\"sources\":[{\"uri\":\"s3://b/q\",\"endpoint\":\"http://"
                                  "s\"}],\"secretRef\":{\"name\":"
                                  "\"k\"}"),
                              SECRET("k") "," SECRET("other"));
    cr_assert_str_eq(model_at(m, "SampleSet", NS, "s", "status|phase"), "Ready", "%s", m->log.data);
    cr_assert_str_eq(model_condition(m, "SampleSet", NS, "s", "VolumeCurrent"), "");
    model_patch(m, "SampleSet", NS, "s", patch);
    model_settle(m, 20);
    cr_assert_str_eq(model_at(m, "SampleSet", NS, "s", "status|phase"), "Ready", "%s", m->log.data);
    return m;
}

/* Kubernetes changes no volume: what the set says now is not what its mounts have. */
Test(operator_source, what_a_volume_cannot_follow_is_told)
{
    static const struct {
        const char *patch, *other;
    } rows[] = {
        {"{\"spec\":{\"secretRef\":{\"name\":\"other\"}}}", "secretRef"},
        {"{\"spec\":{\"secretRef\":null}}", "secretRef"},
        {"{\"spec\":{\"sources\":[{\"uri\":\"s3://b/r\",\"region\":\"eu\"}]}}",
         "uri, region, endpoint"},
        {"{\"spec\":{\"partitions\":1,\"sampler\":\"sequence\"}}", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct model *m = changed(rows[i].patch);
        cleanup_free char *event =
            xasprintf("Warning Outdated: volume " NS ".s was made with another %s than the set",
                      rows[i].other ? rows[i].other : "");
        cr_expect_str_eq(model_condition(m, "SampleSet", NS, "s", "VolumeCurrent"),
                         rows[i].other ? "False Outdated" : "", "%zu", i);
        cr_expect_eq(model_event(m, event), rows[i].other != NULL, "%zu: %s", i, m->log.data);
        model_free(m);
    }
}

/* Nothing of spec.csi can be changed later: without the option the set can be mounted. */
Test(operator_source, options_that_no_mount_takes_are_told)
{
    struct model *m =
        settled(SET("\"source\":{\"uri\":\"s3://b/q\"},\"csi\":{\"mountOptions\":{\"bandwidth\":-1,"
                    "\"memory\":\"lots\",\"prefetch\":8,\"refresh\":\"1 fortnight\"}}"),
                "");
    cr_expect_str_eq(model_condition(m, "SampleSet", NS, "s", "OptionsKnown"),
                     "False RefusedOptions");
    cr_expect_eq(model_event(m, "Warning RefusedOptions: these options of spec.csi are not used: "
                                "bandwidth \"-1\" is not a rate"),
                 1, "%s", m->log.data);
    cr_expect_str_eq(model_at(m, "PersistentVolume", NULL, NS ".s", "spec|mountOptions|0"),
                     "prefetch=8");
    cr_expect_str_eq(model_at(m, "PersistentVolume", NULL, NS ".s", "spec|mountOptions|1"), "");
    model_free(m);
}

Test(operator_source, a_place_is_within_the_set)
{
    static const struct {
        const char *at;
        bool ok;
    } rows[] = {{"train/", true}, {"train", true}, {"/a/b", true},  {"", true},
                {"..a/.b", true}, {"../x", false}, {"a/..", false}, {"a//b", false},
                {"./a", false},   {"//", false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cleanup_free char *set = xasprintf(
            SET("\"sources\":[{\"uri\":\"s3://b/q\",\"at\":\"%s\"},{\"uri\":\"s3://b/r\"}]"),
            rows[i].at);
        struct model *m = settled(set, "");
        cr_expect_str_eq(model_condition(m, "SampleSet", NS, "s", "SourceValid"),
                         rows[i].ok ? "True Parsed" : "False InvalidPlace", "%s", rows[i].at);
        model_free(m);
    }
}

Test(operator_source, several_are_one_set)
{
    struct model *m =
        settled(SET("\"sources\":[{\"persistentVolumeClaim\":{\"name\":\"data\"},\"at\":\"a/\"},"
                    "{\"uri\":\"s3://b/q\",\"at\":\"b/\"}]"),
                BOUND "," OURS(STORE));
    expect_attribute(m, "uri",
                     "{\"sources\":[{\"uri\":\"s3://b/p\",\"at\":\"a/\"},"
                     "{\"uri\":\"s3://b/q\",\"at\":\"b/\"}]}",
                     0);
    expect_attribute(m, "endpoint", "http://minio:9000", 0);
    model_free(m);
    m = settled(SET("\"sources\":[{\"uri\":\"s3://b/q\"},{\"uri\":\"nowhere\"}]"), "");
    cr_expect_str_eq(model_condition(m, "SampleSet", NS, "s", "SourceValid"), "False InvalidURI");
    cr_expect_eq(model_count(m, "StatefulSet"), 0);
    model_free(m);
}

Test(operator_source, several_are_copied_from_where_they_are)
{
    struct model *m =
        settled(SET("\"sources\":[{\"persistentVolumeClaim\":{\"name\":\"data\"}},{\"uri\":"
                    "\"s3://b/q\"}],\"sync\":{\"destination\":\"s3://near/s\"}"),
                BOUND "," OURS(STORE));
    cr_assert(strstr(m->log.data, "\"type\":\"sync\",\"options\":{\"sources\":[\"s3://b/p\","
                                  "\"s3://b/q\"],\"destination\":\"s3://near/s\""),
              "%s", m->log.data);
    model_free(m);
}

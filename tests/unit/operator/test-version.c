/* spec.version of a SampleSet: back to a version that mounts keep, and forth again. */
#include <criterion/criterion.h>

#include "model.h"

#define NS   "ai"
#define NODE "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":"
#define SET(spec)                                                                               \
    "{\"apiVersion\":\"batch.paddlepaddle.org/v1alpha1\",\"kind\":\"SampleSet\",\"metadata\":{" \
    "\"name\":\"imagenet\",\"namespace\":\"" NS "\"},\"spec\":{" spec                           \
    ",\"source\":{\"uri\":\"s3://imagenet/train\"}}}," NODE "\"n1\"}}," NODE "\"n2\"}}"

static const char *set_at(struct model *m, const char *path)
{
    return model_at(m, "SampleSet", NS, "imagenet", path);
}

static const char *condition(struct model *m, const char *type)
{
    return model_condition(m, "SampleSet", NS, "imagenet", type);
}

Test(operator_version, goes_back_to_a_version_that_is_kept_and_forth_again)
{
    struct model *m = model_new("[" SET("\"partitions\":2") "]");
    model_settle(m, 20);
    cr_assert_str_eq(set_at(m, "status|version"), "v2");
    cr_assert_str_eq(set_at(m, "status|versions|1"), "v1");
    cr_assert_eq(m->told_version, 0);
    model_patch(m, "SampleSet", NS, "imagenet", "{\"spec\":{\"version\":\"v1\"}}");
    model_settle(m, 20);
    cr_assert_str_eq(set_at(m, "status|version"), "v1", "%s", m->log.data);
    cr_assert_str_eq(condition(m, "VersionServed"), "True Pinned");
    cr_assert_eq(m->told_version, 2);
    model_patch(m, "SampleSet", NS, "imagenet", "{\"spec\":{\"version\":\"v7\"}}");
    model_settle(m, 20);
    cr_assert_str_eq(condition(m, "VersionServed"), "False NotKept");
    cr_assert_eq(model_event(m, "Warning NotKept: version v7 is not kept on the set's nodes (let "
                                "spec.version name one of those that are: v1, v2; or"),
                 1, "%s", m->log.data);
    cr_assert_str_eq(set_at(m, "status|version"), "v1", "it stays where it is");
    cr_assert_eq(m->told_version, 2);
    model_patch(m, "SampleSet", NS, "imagenet", "{\"spec\":{\"version\":null}}");
    model_settle(m, 20);
    cr_assert_str_eq(set_at(m, "status|version"), "v2");
    cr_assert_str_eq(condition(m, "VersionServed"), "");
    cr_assert_eq(m->told_version, 4);
    model_free(m);
}

Test(operator_version, a_new_node_is_told_of_the_version_that_the_others_serve)
{
    struct model *m = model_new("[" SET("\"partitions\":1,\"version\":\"v1\"") "]");
    model_settle(m, 20);
    cr_assert_str_eq(condition(m, "VersionServed"), "True Pinned");
    model_patch(m, "SampleSet", NS, "imagenet", "{\"spec\":{\"partitions\":2}}");
    m->older = ""; /* nobody has it but who serves it */
    model_settle(m, 20);
    cr_assert_eq(m->told_version, 2);
    cr_assert_str_eq(condition(m, "VersionServed"), "True Pinned");
    model_free(m);
}

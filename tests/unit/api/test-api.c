#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "paddlejob.h"
#include "samplejob.h"
#include "sampleset.h"
#include "trainingjob.h"

static const struct api_kind *const kinds[] = {&api_sampleset, &api_samplejob, &api_paddlejob,
                                               &api_trainingjob};

static void *read_spec(const struct api_kind *k, const char *text, struct err *err)
{
    struct json_doc *doc;
    void *spec = NULL;
    cr_assert_eq(json_parse(&doc, "spec", text, strlen(text), err), 0, "%s", err->msg);
    struct json root = json_root(doc), at = json_get(&root, "spec");
    if (api_read(k->spec, &at, &spec, err))
        spec = NULL;
    json_doc_free(doc);
    return spec;
}

/* --- reading ---------------------------------------------------------------------------------- */

Test(api, the_articles_set)
{
    struct err err = {0};
    struct sampleset_spec *s = read_spec(
        &api_sampleset,
        "{\"spec\":{\"partitions\":2,\"source\":{\"uri\":\"bos://paddleflow-public.hkg.bcebos.com/"
        "imagenet\"},\"secretRef\":{\"name\":\"imagenet\"}}}",
        &err);
    cr_assert(s, "%s", err.msg);
    cr_assert_eq(s->partitions, 2);
    cr_assert_str_eq(s->source->uri, "bos://paddleflow-public.hkg.bcebos.com/imagenet");
    cr_assert_str_eq(s->secret->name, "imagenet");
    cr_assert(!s->cache && !s->csi && !s->no_sync);
    api_free(api_sampleset.spec, s);
}

Test(api, the_articles_job)
{
    struct err err = {0};
    struct paddlejob_spec *s = read_spec(
        &api_paddlejob,
        "{\"spec\":{\"sampleSetRef\":{\"name\":\"imagenet\",\"mountPath\":\"/data\"},\"worker\":{"
        "\"replicas\":2,\"template\":{\"spec\":{\"containers\":[{\"name\":\"resnet\"}]}}}}}",
        &err);
    cr_assert(s, "%s", err.msg);
    cr_assert_str_eq(s->set->mount_path, "/data");
    cr_assert_null(s->set->namespace);
    cr_assert_eq(s->worker->replicas, 2);
    cr_assert_eq(s->worker->limits, -1);
    cr_assert_str_eq(s->worker->template, "{\"spec\":{\"containers\":[{\"name\":\"resnet\"}]}}");
    cr_assert_eq(s->elastic, -1);
    cr_assert_str_eq(s->start_policy, "Ready");
    cr_assert(!s->ps);
    api_free(api_paddlejob.spec, s);
}

Test(api, lists_defaults_and_amounts)
{
    struct err err = {0};
    struct sampleset_spec *s = read_spec(
        &api_sampleset,
        "{\"spec\":{\"source\":{\"uri\":\"file:///data\"},\"cache\":{\"memory\":\"512Mi\","
        "\"levels\":[{\"mediumType\":\"MEM\",\"path\":\"/dev/shm\",\"cacheSize\":1024},"
        "{\"mediumType\":\"SSD\",\"path\":\"/a:/b\"}]},\"refresh\":{\"cron\":\"@daily\"},"
        "\"nodeSelector\":{\"disk\":\"ssd\"},\"sharedTo\":[\"a\",\"b\"]}}",
        &err);
    cr_assert(s, "%s", err.msg);
    const struct sampleset_level *l = s->cache->levels.items;
    cr_assert_eq(s->partitions, 1);
    cr_assert_eq(s->cache->levels.n, 2);
    cr_assert_eq(l[0].mib, 1024);
    cr_assert_str_eq(l[1].path, "/a:/b");
    cr_assert_eq(s->cache->memory, 512u << 20);
    cr_assert_str_eq(s->cache->reclaim, "Delete");
    cr_assert_str_eq(s->refresh->zone, "UTC");
    cr_assert_eq(s->refresh->kept_done, 3);
    cr_assert_str_eq(s->node_selector.pairs[0].value, "ssd");
    cr_assert_eq(s->shared_to.n, 2);
    api_free(api_sampleset.spec, s);
}

Test(api, lengths_are_counted_in_characters)
{
    struct err err = {0};
    cleanup_bytes struct bytes text = {0};
    bytes_add_str(&text, "{\"spec\":{\"version\":\"");
    for (int i = 0; i < 128; i++)
        bytes_add_str(&text, "\xe6\x9c\xac");
    bytes_add_str(&text, "\"}}");
    struct sampleset_spec *s = read_spec(&api_sampleset, text.data, &err);
    cr_assert(s, "%s", err.msg);
    cr_assert_eq(strlen(s->version), 3 * 128);
    api_free(api_sampleset.spec, s);
}

Test(api, both_spellings_of_the_strategy)
{
    struct err err = {0};
    struct samplejob_spec *s = read_spec(
        &api_samplejob,
        "{\"spec\":{\"type\":\"warmup\",\"sampleSetRef\":{\"name\":\"x\"},\"warmupOptions\":{"
        "\"strategyName\":\"random\",\"strategy\":{\"strategyName\":\"sequence\"}}}}",
        &err);
    cr_assert(s, "%s", err.msg);
    cr_assert_str_eq(s->warmup->strategy, "random");
    cr_assert_str_eq(s->warmup->nested->name, "sequence");
    cr_assert_eq(s->ttl_s, -1);
    api_free(api_samplejob.spec, s);
}

Test(api, errors_name_the_path)
{
    static const struct {
        const struct api_kind *kind;
        const char *spec, *message;
    } rows[] = {
        {&api_sampleset, "{\"partitions\":0}", "spec: spec.partitions"},
        {&api_sampleset, "{\"partitions\":\"two\"}", "spec: spec.partitions: want"},
        {&api_sampleset, "{\"source\":\"x\"}", "spec: spec.source: want"},
        {&api_sampleset, "{\"cache\":{\"levels\":[{\"mediumType\":\"MEM\"}]}}",
         "spec: spec.cache.levels[0]: path is missing"},
        {&api_sampleset, "{\"cache\":{\"levels\":[{\"mediumType\":\"TAPE\",\"path\":\"/a\"}]}}",
         "spec: spec.cache.levels[0].mediumType: \"TAPE\": want one of MEM|SSD|HDD"},
        {&api_sampleset, "{\"cache\":{\"levels\":[{\"mediumType\":\"MEM|SSD\",\"path\":\"/a\"}]}}",
         "spec: spec.cache.levels[0].mediumType: \"MEM|SSD\": want one of MEM|SSD|HDD"},
        {&api_sampleset, "{\"cache\":{\"memory\":\"lots\"}}",
         "spec: spec.cache.memory: \"lots\": want a quantity"},
        {&api_sampleset, "{\"refresh\":{\"cron\":\"every day\"}}", "spec: spec.refresh.cron: "},
        {&api_sampleset, "{\"nodeSelector\":{\"a\":1}}", "spec: spec.nodeSelector.a: want"},
        {&api_samplejob, "{}", "spec: spec: type is missing"},
        {&api_samplejob, "{\"type\":\"rmr\",\"rmrOptions\":{\"paths\":[]}}",
         "spec: spec.rmrOptions.paths: want 1 to 100000 items, got 0"},
        {&api_samplejob, "{\"type\":\"rmr\",\"rmrOptions\":{\"paths\":[\"a\",7]}}",
         "spec: spec.rmrOptions.paths[1]: want"},
        {&api_samplejob, "{\"type\":\"evict\",\"evictOptions\":{\"unusedFor\":3600}}",
         "spec: spec.evictOptions.unusedFor: want a string, got an integer"},
        {&api_paddlejob, "{\"worker\":{}}", "spec: spec.worker: replicas is missing"},
        {&api_paddlejob, "{\"intranet\":\"Pod\"}", "spec: spec.intranet: \"Pod\": want one of"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err err = {0};
        cleanup_bytes struct bytes text = {0};
        bytes_addf(&text, "{\"spec\":%s}", rows[i].spec);
        cr_assert_null(read_spec(rows[i].kind, text.data, &err), "%s", rows[i].spec);
        cr_assert(strstr(err.msg, rows[i].message) == err.msg, "%s: %s", rows[i].spec, err.msg);
    }
}

Test(api, unknown_keys_are_of_a_newer_version)
{
    struct err err = {0};
    struct sampleset_spec *s =
        read_spec(&api_sampleset, "{\"spec\":{\"partitions\":3,\"tomorrow\":{\"x\":1}}}", &err);
    cr_assert(s, "%s", err.msg);
    cr_assert_eq(s->partitions, 3);
    api_free(api_sampleset.spec, s);
}

/* --- writing ---------------------------------------------------------------------------------- */

/* --- amounts ---------------------------------------------------------------------------------- */

Test(api, quantities)
{
    static const struct {
        const char *text;
        uint64_t bytes;
        bool bad;
    } rows[] = {{"0", 0, 0},
                {"10Gi", 10ull << 30, 0},
                {"500M", 500000000, 0},
                {"1.5Ki", 1536, 0},
                {"1e3", 1000, 0},
                {"2E", 2000000000000000000ull, 0},
                {"1500m", 2, 0},
                {"9007199254740993", 9007199254740993ull, 0},
                {"", 0, 1},
                {"Gi", 0, 1},
                {"1.2.3", 0, 1},
                {"1gb", 0, 1},
                {"-1", 0, 1},
                {"99999999E", 0, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t bytes = 0;
        struct err err = {0};
        cr_assert_eq(api_quantity(rows[i].text, &bytes, &err) < 0, rows[i].bad, "%s", rows[i].text);
        cr_assert_eq(bytes, rows[i].bytes, "%s: %llu", rows[i].text, (unsigned long long)bytes);
    }
}

/* --- the definitions -------------------------------------------------------------------------- */

static void read_file(const char *path, struct bytes *ret)
{
    char part[4096];
    size_t n;
    FILE *f = fopen(path, "re");
    cr_assert(f, "%s: missing", path);
    while ((n = fread(part, 1, sizeof part, f)) > 0)
        bytes_add(ret, part, n);
    fclose(f);
}

/* With SAMPAN_WRITE_CRD set the files are written (`make crd`). */
Test(api, deploy_crd_is_what_the_tables_say)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        cleanup_bytes struct bytes made = {0}, there = {0};
        char path[128];
        snprintf(path, sizeof path, "deploy/crd/%s.yaml", kinds[i]->singular);
        api_crd(kinds[i], &made);
        if (getenv("SAMPAN_WRITE_CRD")) {
            FILE *f = fopen(path, "we");
            cr_assert(f && fwrite(made.data, 1, made.len, f) == made.len && !fclose(f), "%s", path);
        }
        read_file(path, &there);
        cr_assert_str_eq(there.data, made.data, "%s: run `make crd`", path);
    }
}

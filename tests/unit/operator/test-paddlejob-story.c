/*
 * PaddleJobs in a cluster of their own: what decisions come to when they are carried out, also by
 * an operator that is killed between any two actions.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "mem.h"
#include "cluster.h"

#define NOW      1795305600
#define MOST     200 /* rounds until everything must be at rest */
#define LATER    31  /* seconds after which servers of a job that has completed are stopped */
#define JOB_PATH KIND_PADDLEJOB, "team", "resnet"

struct story {
    const char *name, *spec;
    void (*begin)(struct cluster *m);
    /* Called when all is at rest, with 0, 1, 2…; false: the story is over. */
    bool (*event)(struct cluster *m, unsigned step);
    const char *phase; /* at its end; NULL: the job is gone */
    size_t pods, restarts;
};

struct run {
    const struct story *story;
    struct cluster m;
    struct operator_config config;
    unsigned step;
    size_t actions;
    struct ends *ends; /* of all runs that are killed on the way; NULL: this one is killed */
};
struct ends {
    struct bytes *items;
    size_t n;
};

/* Builds with a sanitizer are slow: they try each such kill only. */
#ifdef SAMPAN_TEST_LAYERS
#define EACH_KILL 7
#else
#define EACH_KILL 1
#endif

/* --- running ---------------------------------------------------------------------------------- */

static void finish(struct run *r);
static void check_end(struct run *r);

static bool is_there(const struct cluster *m)
{
    return cluster_get(m, JOB_PATH) != NULL;
}

/* What becomes of it if the operator is killed now: what it has decided is lost, and it begins
 * anew. */
static void kill_here(const struct run *r)
{
    struct run other = *r;
    if (!r->ends || r->actions % EACH_KILL)
        return;
    struct bytes *items = xrealloc(r->ends->items, (r->ends->n + 1) * sizeof *items);
    struct bytes *end = &items[r->ends->n++];
    r->ends->items = items;
    *end = (struct bytes){0};
    other.ends = NULL;
    cluster_copy(&other.m, &r->m);
    finish(&other);
    check_end(&other);
    cluster_dump(&other.m, end);
    cluster_release(&other.m);
}

/* Decides once and carries it out. True: something was done. */
static bool work(struct run *r)
{
    struct actions out = {0};
    bool did = false;
    if (!is_there(&r->m))
        return false;
    cluster_decide(&r->m, &paddlejob_controller, &r->config, "team", "resnet", &out);
    for (size_t i = 0; i < out.n; i++) {
        if (out.items[i].type == ACTION_AGAIN || out.items[i].type == ACTION_EVENT)
            continue;
        kill_here(r);
        did = true;
        r->actions++;
        if (!cluster_apply(&r->m, &out.items[i]))
            break;
    }
    actions_release(&out);
    return did;
}

/* Until neither the operator nor the kubelet has anything to do. */
static void settle(struct run *r)
{
    for (unsigned i = 0; i < MOST; i++) {
        bool worked = work(r), moved = !worked && cluster_kubelet(&r->m);
        if (!worked && !moved)
            return;
    }
    cr_assert(false, "%s: never at rest", r->story->name);
}

static void finish(struct run *r)
{
    settle(r);
    while (r->story->event && r->story->event(&r->m, r->step)) {
        r->step++;
        settle(r);
    }
    r->m.now += LATER;
    settle(r);
}

static void begin(struct run *r)
{
    cleanup_free char *job = xasprintf(
        "{\"apiVersion\":\"batch.paddlepaddle.org/v1\",\"kind\":\"PaddleJob\",\"metadata\":{"
        "\"name\":\"resnet\",\"namespace\":\"team\"},\"spec\":%s}",
        r->story->spec);
    r->m.now = NOW;
    cluster_put(&r->m, job);
    if (r->story->begin)
        r->story->begin(&r->m);
}

/* --- what happens ----------------------------------------------------------------------------- */

static void put_set(struct cluster *m)
{
    cluster_put(m, "{\"apiVersion\":\"batch.paddlepaddle.org/v1alpha1\",\"kind\":\"SampleSet\","
                   "\"metadata\":{\"name\":\"imagenet\",\"namespace\":\"data\"},\"spec\":{"
                   "\"partitions\":2,\"sharedTo\":[\"*\"]},\"status\":{\"phase\":\"Syncing\"}}");
    cluster_put(m,
                "{\"apiVersion\":\"v1\",\"kind\":\"PersistentVolumeClaim\",\"metadata\":{\"name\":"
                "\"imagenet\",\"namespace\":\"data\"},\"spec\":{\"volumeName\":\"v\"}}");
    cluster_put(m, "{\"apiVersion\":\"v1\",\"kind\":\"PersistentVolume\",\"metadata\":{\"name\":"
                   "\"v\"},\"spec\":{\"accessModes\":[\"ReadWriteMany\"],\"csi\":{\"driver\":\"d\","
                   "\"volumeHandle\":\"h\",\"volumeAttributes\":{\"uri\":\"s3://b/p\"}}}}");
}

static void make_ready(struct cluster *m)
{
    cluster_put(m, "{\"apiVersion\":\"v1\",\"kind\":\"PersistentVolumeClaim\",\"metadata\":{"
                   "\"name\":\"data.imagenet\",\"namespace\":\"team\"}}");
    cluster_patch(m, KIND_SAMPLESET, "data", "imagenet", "{\"status\":{\"phase\":\"Ready\"}}");
}

static bool end_workers(struct cluster *m, int n)
{
    for (int i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, "resnet-worker-%d", i);
        cluster_end_pod(m, "team", name, 0);
    }
    return true;
}

static bool ends_well(struct cluster *m, unsigned step)
{
    return step == 0 && end_workers(m, 2);
}

static bool servers_end_by_themselves(struct cluster *m, unsigned step)
{
    if (step == 0)
        end_workers(m, 2);
    if (step == 1) {
        cr_assert_eq(cluster_count(m, KIND_POD), 4, "servers may say their last words");
        cluster_end_pod(m, "team", "resnet-ps-0", 0);
    }
    return step < 2;
}

static bool waits_for_samples(struct cluster *m, unsigned step)
{
    if (step == 0) {
        cr_assert_eq(cluster_count(m, KIND_POD), 0);
        make_ready(m);
    }
    return step == 0 || (step == 1 && end_workers(m, 2));
}

static bool deleted_with_samples(struct cluster *m, unsigned step)
{
    if (step == 0)
        make_ready(m);
    if (step == 1)
        cluster_delete(m, JOB_PATH);
    return step < 2;
}

static bool worker_fails_once(struct cluster *m, unsigned step)
{
    if (step == 0)
        cluster_end_pod(m, "team", "resnet-worker-1", 1);
    return step == 0 || (step == 1 && end_workers(m, 2));
}

static bool worker_fails_for_good(struct cluster *m, unsigned step)
{
    if (step < 2)
        cluster_end_pod(m, "team", "resnet-worker-1", 1);
    return step < 2;
}

static bool server_fails_once(struct cluster *m, unsigned step)
{
    if (step == 0)
        cluster_end_pod(m, "team", "resnet-ps-0", 1);
    return step == 0 || (step == 1 && end_workers(m, 2));
}

static bool both_fail_one_by_one(struct cluster *m, unsigned step)
{
    if (step == 0)
        cluster_end_pod(m, "team", "resnet-worker-1", 1);
    if (step == 1)
        cluster_end_pod(m, "team", "resnet-worker-0", 1);
    return step < 2 || (step == 2 && end_workers(m, 2));
}

static bool pod_is_lost(struct cluster *m, unsigned step)
{
    if (step == 0)
        cluster_delete(m, KIND_POD, "team", "resnet-worker-0");
    return step == 0 || (step == 1 && end_workers(m, 2));
}

static bool grows_and_shrinks(struct cluster *m, unsigned step)
{
    static const char *const sizes[] = {"{\"spec\":{\"worker\":{\"replicas\":3}}}",
                                        "{\"spec\":{\"worker\":{\"replicas\":1}}}"};
    if (step < 2)
        cluster_patch(m, JOB_PATH, sizes[step]);
    return step < 2 || (step == 2 && end_workers(m, 1));
}

/* The REF's own test: servers 3, workers 2, edited to 1 and 4. */
static bool is_edited(struct cluster *m, unsigned step)
{
    if (step == 0)
        cluster_patch(m, JOB_PATH,
                      "{\"spec\":{\"ps\":{\"replicas\":1},\"worker\":{\"replicas\":4}}}");
    return step == 0;
}

static bool is_suspended_and_resumed(struct cluster *m, unsigned step)
{
    if (step == 0)
        cluster_patch(m, JOB_PATH, "{\"spec\":{\"suspend\":true}}");
    if (step == 1) {
        cr_assert_eq(cluster_count(m, KIND_POD), 0);
        cleanup_free char *phase = cluster_at(m, JOB_PATH, "status", "phase", NULL);
        cr_assert_str_eq(phase, "\"Suspended\"");
        cluster_patch(m, JOB_PATH, "{\"spec\":{\"suspend\":false}}");
    }
    return step < 2;
}

static bool deleted_while_suspended(struct cluster *m, unsigned step)
{
    if (step == 0)
        cluster_delete(m, JOB_PATH);
    return step == 0;
}

static bool deleted_after_its_end(struct cluster *m, unsigned step)
{
    if (step == 0)
        end_workers(m, 2);
    if (step == 1)
        cluster_delete(m, JOB_PATH);
    return step < 2;
}

static bool its_time_is_over(struct cluster *m, unsigned step)
{
    if (step == 0)
        end_workers(m, 2);
    if (step == 1)
        m->now += 61;
    return step < 2;
}

static bool group_has_its_turn(struct cluster *m, unsigned step)
{
    if (step == 0) {
        cr_assert_eq(cluster_count(m, KIND_POD), 0);
        cluster_patch(m, KIND_PODGROUP, "team", "resnet", "{\"status\":{\"phase\":\"Inqueue\"}}");
    }
    if (step == 1)
        end_workers(m, 2);
    return step < 2;
}

#define TEMPLATE    "\"template\":{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}"
#define WORKERS(n)  "\"worker\":{\"replicas\":" #n "," TEMPLATE "}"
#define SERVERS(n)  "\"ps\":{\"replicas\":" #n "," TEMPLATE "}"
#define SAMPLES     "\"sampleSetRef\":{\"name\":\"imagenet\",\"mountPath\":\"/data\"},"
#define NEVER_CLEAN "\"cleanPodPolicy\":\"Never\","

static const struct story stories[] = {
    {"single", "{" WORKERS(1) "}", 0, 0, "Running", 1, 0},
    {"collective", "{" WORKERS(2) "}", 0, ends_well, "Completed", 0, 0},
    {"keeps its pods", "{" NEVER_CLEAN WORKERS(2) "}", 0, ends_well, "Completed", 2, 0},
    {"servers are stopped", "{" NEVER_CLEAN SERVERS(2) "," WORKERS(2) "}", 0, ends_well,
     "Completed", 2, 0},
    {"a server ends by itself", "{" NEVER_CLEAN SERVERS(2) "," WORKERS(2) "}", 0,
     servers_end_by_themselves, "Completed", 3, 0},
    {"services", "{\"intranet\":\"Service\"," SERVERS(1) "," WORKERS(2) "}", 0, ends_well,
     "Completed", 0, 0},
    {"on the host", "{\"intranet\":\"Host\"," WORKERS(2) "}", 0, ends_well, "Completed", 0, 0},
    {"samples elsewhere", "{" SAMPLES WORKERS(2) "}", put_set, waits_for_samples, "Completed", 0,
     0},
    {"deleted with samples", "{" SAMPLES WORKERS(2) "}", put_set, deleted_with_samples, 0, 0, 0},
    {"deleted while it waits", "{" SAMPLES WORKERS(2) "}", put_set, deleted_while_suspended, 0, 0,
     0},
    {"output",
     "{" SAMPLES
     "\"output\":{\"sampleSetRef\":{\"name\":\"imagenet\"},\"mountPath\":\"/o\"}," WORKERS(2) "}",
     put_set, deleted_with_samples, 0, 0, 0},
    {"fails", "{" NEVER_CLEAN WORKERS(2) "}", 0, worker_fails_for_good, "Failed", 2, 0},
    {"fails once", "{\"backoffLimit\":2," NEVER_CLEAN WORKERS(2) "}", 0, worker_fails_once,
     "Completed", 2, 1},
    {"fails too often", "{\"backoffLimit\":1," NEVER_CLEAN WORKERS(2) "}", 0, worker_fails_for_good,
     "Failed", 2, 1},
    {"a server fails", "{\"backoffLimit\":2," NEVER_CLEAN SERVERS(2) "," WORKERS(2) "}", 0,
     server_fails_once, "Completed", 2, 1},
    {"workers fail beside servers",
     "{\"backoffLimit\":5," NEVER_CLEAN SERVERS(1) "," WORKERS(2) "}", 0, both_fail_one_by_one,
     "Completed", 2, 2},
    {"a pod is lost", "{" NEVER_CLEAN WORKERS(2) "}", 0, pod_is_lost, "Completed", 2, 0},
    {"a pod is lost beside a server", "{" NEVER_CLEAN SERVERS(1) "," WORKERS(2) "}", 0, pod_is_lost,
     "Completed", 2, 0},
    {"a pod is lost behind its service", "{\"intranet\":\"Service\"," NEVER_CLEAN WORKERS(2) "}", 0,
     pod_is_lost, "Completed", 2, 0},
    {"resized", "{" NEVER_CLEAN WORKERS(2) "}", 0, grows_and_shrinks, "Completed", 1, 0},
    {"resized behind services", "{\"intranet\":\"Service\"," NEVER_CLEAN WORKERS(2) "}", 0,
     grows_and_shrinks, "Completed", 1, 0},
    {"elastic", "{\"elastic\":1," NEVER_CLEAN WORKERS(2) "}", 0, grows_and_shrinks, "Completed", 1,
     0},
    {"edited", "{" SERVERS(3) "," WORKERS(2) "}", 0, is_edited, "Running", 5, 0},
    {"suspended", "{" WORKERS(2) "}", 0, is_suspended_and_resumed, "Running", 2, 0},
    {"deleted while suspended", "{\"suspend\":true," WORKERS(2) "}", 0, deleted_while_suspended, 0,
     0, 0},
    {"deleted while it runs", "{" SERVERS(1) "," WORKERS(2) "}", 0, deleted_while_suspended, 0, 0,
     0},
    {"deleted after its end", "{" NEVER_CLEAN WORKERS(2) "}", 0, deleted_after_its_end, 0, 0, 0},
    {"its time is over", "{\"ttlSecondsAfterFinished\":60," WORKERS(2) "}", 0, its_time_is_over, 0,
     0, 0},
};
static const struct story volcano = {
    "volcano", "{" WORKERS(2) "}", 0, group_has_its_turn, "Completed", 0, 0};

/* --- checking --------------------------------------------------------------------------------- */

static void check_end(struct run *r)
{
    const struct story *s = r->story;
    struct cluster *m = &r->m;
    cluster_kubelet(m);
    cr_assert_eq(cluster_count(m, KIND_POD), s->pods, "%s: %zu pods", s->name,
                 cluster_count(m, KIND_POD));
    cr_assert_eq(is_there(m), s->phase != NULL, "%s", s->name);
    if (!s->phase) {
        cr_assert_eq(cluster_count(m, KIND_CONFIGMAP), 0, "%s", s->name);
        cr_assert_leq(cluster_count(m, KIND_PV), 1, "%s: volumes are left", s->name);
        cr_assert_leq(cluster_count(m, KIND_PVC), 2, "%s: claims are left", s->name);
        return;
    }
    cleanup_free char *phase = cluster_at(m, JOB_PATH, "status", "phase", NULL);
    cleanup_free char *restarts = cluster_at(m, JOB_PATH, "status", "restarts", NULL);
    cleanup_free char *want = xasprintf("\"%s\"", s->phase);
    cr_assert_str_eq(phase, want, "%s", s->name);
    cr_assert_eq(strtoul(restarts, NULL, 10), s->restarts, "%s: %s restarts", s->name, restarts);
    cr_assert_not(work(r), "%s: it is at rest and still wants something", s->name);
}

static void play(const struct story *s, bool with_volcano)
{
    struct ends ends = {0};
    cleanup_bytes struct bytes want = {0};
    struct run r = {.story = s, .config = golden_config, .ends = &ends};
    r.config.volcano = with_volcano;
    r.config.etcd_servers = "etcd:2379";
    begin(&r);
    finish(&r);
    check_end(&r);
    cluster_dump(&r.m, &want);
    for (size_t i = 0; i < ends.n; i++) {
        const char *got = ends.items[i].data ? ends.items[i].data : "";
        cr_assert_str_eq(got, want.data ? want.data : "",
                         "%s: killed for the %zu. time it ends with\n%s\ninstead of\n%s", s->name,
                         i + 1, got, want.data);
        bytes_release(&ends.items[i]);
    }
    free(ends.items);
    cluster_release(&r.m);
}

Test(operator_paddlejob_story, comes_to_rest_whenever_it_is_killed)
{
    for (size_t i = 0; i < sizeof stories / sizeof stories[0]; i++)
        play(&stories[i], false);
    play(&volcano, true);
}

/* TrainingJob: objects in, actions out, for both of its styles. */
#include <criterion/criterion.h>
#include <string.h>

#include "cluster.h"
#include "golden.h"
#include "mem.h"

#define JOB                                                                                    \
    "{\"apiVersion\":\"paddlepaddle.org/v1\",\"kind\":\"TrainingJob\",\"metadata\":{\"name\":" \
    "\"mnist\",\"namespace\":\"team\",\"uid\":\"u-job\",\"resourceVersion\":\"7\","            \
    "\"generation\":1"
#define VIEW     JOB_VIEW JOB
#define JOB_VIEW "{\"now\":1795305600,\"object\":"
#define OBJECTS  "},\"objects\":["
#define END      "]}"

#define EDL                                                                                    \
    "{\"image\":\"paddle:1\",\"fault_tolerant\":true,\"trainer\":{\"entrypoint\":\"python "    \
    "train.py\",\"workspace\":\"/work\",\"min-instance\":2,\"max-instance\":6,\"resources\":{" \
    "\"limits\":{\"cpu\":\"5\"}}},\"pserver\":{\"min-instance\":3,\"max-instance\":3}}"
#define TENSOR                                                                                 \
    "{\"image\":\"harbor/mnist:1\",\"style\":\"tensor\",\"trainer\":{\"entrypoint\":\"python " \
    "mnist.py\",\"min-instance\":2},\"serving\":{\"image\":\"harbor/mnist-serving:1\","        \
    "\"replicas\":2}}"
#define TRAINERS(parallelism, status)                                                         \
    "{\"apiVersion\":\"batch/v1\",\"kind\":\"Job\",\"metadata\":{\"name\":\"mnist-trainer\"," \
    "\"namespace\":\"team\",\"uid\":\"u-t\",\"resourceVersion\":\"3\",\"labels\":{"           \
    "\"sampan.io/owner\":\"u-job\"}},\"spec\":{\"parallelism\":" #parallelism                 \
    "},\"status\":{" status "}}"
#define FIXED(n, status)                                                                      \
    "{\"apiVersion\":\"batch/v1\",\"kind\":\"Job\",\"metadata\":{\"name\":\"mnist-trainer\"," \
    "\"namespace\":\"team\",\"uid\":\"u-t\",\"resourceVersion\":\"3\",\"labels\":{"           \
    "\"sampan.io/owner\":\"u-job\"}},\"spec\":{\"parallelism\":" #n ",\"completions\":" #n    \
    "},\"status\":{" status "}}"
#define SCALED(parallelism, note, status)                                                     \
    "{\"apiVersion\":\"batch/v1\",\"kind\":\"Job\",\"metadata\":{\"name\":\"mnist-trainer\"," \
    "\"namespace\":\"team\",\"uid\":\"u-t\",\"resourceVersion\":\"3\",\"labels\":{"           \
    "\"sampan.io/owner\":\"u-job\"},\"annotations\":{\"sampan.io/scaled\":\"" note            \
    "\"}},\"spec\":{\"parallelism\":" #parallelism "},\"status\":{" status "}}"
/* A trainer that no node takes. */
#define HOMELESS                                                                              \
    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"mnist-trainer-x\","     \
    "\"namespace\":\"team\",\"uid\":\"u-p\",\"labels\":{\"sampan.io/owner\":\"u-job\","       \
    "\"paddle-job\":\"mnist\"}},\"status\":{\"phase\":\"Pending\",\"conditions\":[{\"type\":" \
    "\"PodScheduled\",\"status\":\"False\",\"reason\":\"Unschedulable\"}]}}"
/* A server whose container was started again so often. */
#define SERVER(restarts)                                                                           \
    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"mnist-pserver-x\","          \
    "\"namespace\":\"team\",\"uid\":\"u-p\",\"labels\":{\"sampan.io/owner\":\"u-job\","            \
    "\"paddle-job-pserver\":\"mnist\"}},\"status\":{\"phase\":\"Running\",\"containerStatuses\":[" \
    "{"                                                                                            \
    "\"name\":\"pserver\",\"restartCount\":" #restarts "}]}}"
#define RUNS ",\"status\":{\"phase\":\"Running\",\"startTime\":\"2026-11-21T23:58:00Z\"}"
#define REPLICAS(name)                                                                   \
    "{\"apiVersion\":\"apps/v1\",\"kind\":\"ReplicaSet\",\"metadata\":{\"name\":\"" name \
    "\",\"namespace\":\"team\",\"uid\":\"u-r\",\"labels\":{\"sampan.io/owner\":\"u-job\"}}}"

static const struct {
    const char *name, *view;
} rows[] = {
    {"tj-edl", VIEW "},\"spec\":" EDL OBJECTS END},
    {"tj-edl-plain", VIEW "},\"spec\":{\"image\":\"paddle:1\",\"trainer\":{\"entrypoint\":\"python "
                          "train.py\"}}" OBJECTS END},
    {"tj-edl-runs", VIEW "},\"spec\":" EDL OBJECTS TRAINERS(2, "\"active\":2,\"ready\":2") END},
    {"tj-edl-not-ready",
     VIEW "},\"spec\":" EDL OBJECTS TRAINERS(2, "\"active\":2,\"ready\":0") END},
    {"tj-edl-scaled", VIEW "},\"spec\":" EDL OBJECTS TRAINERS(5, "\"active\":5,\"ready\":5") END},
    {"tj-edl-scaled-too-far",
     VIEW "},\"spec\":" EDL OBJECTS TRAINERS(9, "\"active\":9,\"ready\":9") END},
    {"tj-edl-grows",
     VIEW "},\"spec\":" EDL RUNS OBJECTS TRAINERS(2, "\"active\":2,\"ready\":2") END},
    {"tj-edl-grown", VIEW
     "},\"spec\":" EDL RUNS OBJECTS SCALED(3, "1795305590 grown", "\"active\":3,\"ready\":3") END},
    {"tj-edl-of-a-fixed-number",
     VIEW "},\"spec\":" EDL RUNS OBJECTS FIXED(2, "\"active\":2,\"ready\":2") END},
    {"tj-edl-is-left-alone", VIEW
     ",\"annotations\":{\"sampan.io/autoscale\":\"false\"}},\"spec\":" EDL RUNS OBJECTS TRAINERS(
         2, "\"active\":2,\"ready\":2") END},
    {"tj-edl-finds-no-room",
     VIEW "},\"spec\":" EDL RUNS OBJECTS SCALED(4, "1795305500 grown",
                                                "\"active\":4,\"ready\":3") "," HOMELESS END},
    {"tj-edl-found-no-room", VIEW
     "},\"spec\":" EDL RUNS OBJECTS SCALED(3, "1795305500 full", "\"active\":3,\"ready\":3") END},
    {"tj-edl-tries-again", VIEW
     "},\"spec\":" EDL RUNS OBJECTS SCALED(3, "1795305300 full", "\"active\":3,\"ready\":3") END},
    {"tj-edl-has-all", VIEW
     "},\"spec\":" EDL RUNS OBJECTS SCALED(6, "1795305000 grown", "\"active\":6,\"ready\":6") END},
    {"tj-edl-keeps-the-fewest",
     VIEW "},\"spec\":" EDL RUNS OBJECTS TRAINERS(2, "\"active\":2,\"ready\":1") "," HOMELESS END},
    {"tj-edl-loses-one",
     VIEW "},\"spec\":" EDL OBJECTS TRAINERS(2, "\"active\":1,\"failed\":1") END},
    {"tj-edl-loses-all", VIEW "},\"spec\":" EDL OBJECTS TRAINERS(2, "\"failed\":2") END},
    {"tj-edl-fails-after-one-ended-well",
     VIEW "},\"spec\":" EDL RUNS OBJECTS TRAINERS(
         2,
         "\"succeeded\":1,\"failed\":3,\"conditions\":[{\"type\":\"Failed\",\"status\":\"True\"}]")
         END},
    {"tj-edl-succeeds",
     VIEW "},\"spec\":" EDL OBJECTS TRAINERS(
         2, "\"succeeded\":2,\"conditions\":[{\"type\":\"Complete\",\"status\":\"True\"}]") END},
    {"tj-edl-plain-fails",
     VIEW "},\"spec\":{\"image\":\"i\",\"trainer\":{}}" OBJECTS TRAINERS(1, "\"failed\":1") END},
    {"tj-over", VIEW "},\"spec\":" EDL
                     ",\"status\":{\"phase\":\"Succeed\"}" OBJECTS REPLICAS("mnist-pserver") END},
    {"tj-walltime", VIEW
     ",\"annotations\":{\"walltime\":\"60\"}},\"spec\":" EDL
     ",\"status\":{\"phase\":\"Running\",\"startTime\":\"2026-11-21T23:58:00Z\"}" OBJECTS TRAINERS(
         2, "\"active\":2,\"ready\":2") END},
    {"tj-edl-server-starts-again",
     VIEW "},\"spec\":" EDL RUNS OBJECTS TRAINERS(2, "\"active\":2,\"ready\":2") "," SERVER(5) END},
    {"tj-edl-server-starts-again-too-often",
     VIEW "},\"spec\":" EDL RUNS OBJECTS TRAINERS(2, "\"active\":2,\"ready\":2") "," SERVER(6) END},
    {"tj-edl-server-may-not-start-again", VIEW
     ",\"annotations\":{\"sampan.io/pserver-restarts\":\"0\"}},\"spec\":" EDL RUNS OBJECTS TRAINERS(
         2, "\"active\":2,\"ready\":2") "," SERVER(1) END},
    {"tj-edl-released-after-its-servers",
     VIEW "},\"spec\":" EDL ",\"status\":{\"phase\":\"Failed\"}" OBJECTS TRAINERS(
         2, "\"active\":2,\"ready\":2") "," REPLICAS("mnist-pserver") END},
    {"tj-edl-kept-after-a-trainer",
     VIEW "},\"spec\":" EDL ",\"status\":{\"phase\":\"Failed\"}" OBJECTS TRAINERS(
         2, "\"active\":1,\"failed\":1") "," REPLICAS("mnist-pserver") END},
    {"tj-tensor", VIEW "},\"spec\":" TENSOR OBJECTS END},
    {"tj-bad-bounds",
     VIEW "},\"spec\":{\"image\":\"i\",\"trainer\":{\"min-instance\":3,\"max-instance\":2}}" OBJECTS
         END},
    {"tj-bad-server-bounds", VIEW "},\"spec\":{\"image\":\"i\",\"trainer\":{},\"pserver\":{\"min-"
                                  "instance\":3,\"max-instance\":2}}" OBJECTS END},
    {"tj-bad-spec", VIEW "},\"spec\":{\"image\":\"i\"}" OBJECTS END},
    {"tj-name-taken",
     VIEW "},\"spec\":{\"image\":\"i\",\"trainer\":{}}" OBJECTS
          "{\"apiVersion\":\"batch/v1\",\"kind\":\"Job\",\"metadata\":{\"name\":\"mnist-trainer\","
          "\"namespace\":\"team\",\"uid\":\"u-x\"}}" END},
};

Test(operator_trainingjob, decisions)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        golden_check(&trainingjob_controller, &golden_config, rows[i].name, rows[i].view);
}

/* --- until nothing is wanted ------------------------------------------------------------------ */

/* Applies one decision but for what follows action `kill`. True: it wanted something. */
static bool work(struct cluster *m, size_t kill)
{
    struct actions out = {0};
    bool wanted = false;
    cluster_decide(m, &trainingjob_controller, &golden_config, "team", "mnist", &out);
    for (size_t i = 0; i < out.n && i < kill; i++) {
        wanted = wanted || out.items[i].type < ACTION_EVENT;
        cr_assert(cluster_apply(m, &out.items[i]));
    }
    actions_release(&out);
    return wanted || kill < out.n;
}

static void settle(struct cluster *m)
{
    for (int i = 0; work(m, (size_t)-1); i++)
        cr_assert_lt(i, 20, "never at rest");
}

static void set_up(struct cluster *m, const char *spec)
{
    cleanup_free char *job = xasprintf(JOB "},\"spec\":%s}", spec);
    m->now = 1795305600;
    cluster_put(m, job);
}

Test(operator_trainingjob, comes_to_rest_whenever_it_is_killed)
{
    static const char *const specs[] = {EDL, TENSOR};
    for (size_t s = 0; s < 2; s++) {
        struct bytes want = {0};
        for (size_t kill = 24; kill-- > 0;) {
            cleanup_bytes struct bytes got = {0};
            struct cluster m = {0};
            set_up(&m, specs[s]);
            work(&m, kill);
            settle(&m);
            cluster_dump(&m, &got);
            if (!want.len)
                bytes_add(&want, got.data, got.len);
            cr_assert_str_eq(got.data, want.data, "killed after %zu", kill);
            cluster_release(&m);
        }
        bytes_release(&want);
    }
}

/* As many workers as before and one more: all templates name it, and it comes. */
Test(operator_trainingjob, a_new_task_is_told_to_all)
{
    struct cluster m = {0};
    set_up(&m, TENSOR);
    settle(&m);
    size_t before = cluster_count(&m, KIND_REPLICASET);
    cluster_patch(&m, KIND_TRAININGJOB, "team", "mnist",
                  "{\"spec\":{\"trainer\":{\"min-instance\":3}}}");
    settle(&m);
    cr_assert_eq(cluster_count(&m, KIND_REPLICASET), before + 1);
    cr_assert(strstr(cluster_get(&m, KIND_REPLICASET, "team", "mnist-ps-0"),
                     "--worker_hosts=mnist-worker-0:5000,mnist-worker-1:5000,mnist-worker-2:5000"));
    cluster_patch(&m, KIND_TRAININGJOB, "team", "mnist",
                  "{\"spec\":{\"trainer\":{\"min-instance\":1}}}");
    settle(&m);
    cr_assert_eq(cluster_count(&m, KIND_REPLICASET), before - 1);
    cr_assert_null(cluster_get(&m, KIND_SERVICE, "team", "mnist-worker-1"));
    cluster_release(&m);
}

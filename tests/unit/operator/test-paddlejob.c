/* PaddleJob: objects in, actions out. What they come to together is in test-paddlejob-story.c. */
#include <criterion/criterion.h>
#include <string.h>

#include "golden.h"
#include "mem.h"

#define HEAD                                                                                    \
    "{\"now\":1795305600,\"object\":{\"apiVersion\":\"batch.paddlepaddle.org/v1\",\"kind\":"    \
    "\"PaddleJob\",\"metadata\":{\"name\":\"resnet\",\"namespace\":\"team\",\"uid\":\"u-job\"," \
    "\"resourceVersion\":\"7\",\"generation\":3"
#define FINAL   ",\"finalizers\":[\"finalizers.paddlepaddle.org\"]"
#define JOB     HEAD FINAL "},\"spec\":"
#define OBJECTS "},\"objects\":["
#define END     "]}"

#define TEMPLATE                                                                              \
    "\"template\":{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"resources\":{" \
    "\"limits\":{\"nvidia.com/gpu\":2}}}]}}"
#define WORKERS(n) "\"worker\":{\"replicas\":" #n "," TEMPLATE "}"
#define SERVERS(n)             \
    "\"ps\":{\"replicas\":" #n \
    ",\"template\":{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}}"

/* The article's job, as printed. */
#define ARTICLE                                                                                    \
    "{\"sampleSetRef\":{\"name\":\"imagenet\",\"mountPath\":\"/data\"},\"worker\":{\"replicas\":"  \
    "2,\"template\":{\"spec\":{\"containers\":[{\"name\":\"resnet\",\"image\":"                    \
    "\"registry.baidubce.com/paddle-operator/demo-resnet:v1\",\"command\":[\"python\"],\"args\":[" \
    "\"-m\",\"paddle.distributed.launch\",\"./tools/train.py\",\"-c\","                            \
    "\"./config/ResNet50.yaml\"],\"resources\":{\"limits\":{\"nvidia.com/gpu\":2}}}]}}}}"

#define SET(ns, phase)                                                                            \
    "{\"apiVersion\":\"batch.paddlepaddle.org/v1alpha1\",\"kind\":\"SampleSet\",\"metadata\":{"   \
    "\"name\":\"imagenet\",\"namespace\":\"" ns "\",\"uid\":\"u-set\"},\"spec\":{\"partitions\":" \
    "2,\"sharedTo\":[\"*\"]},\"status\":{\"phase\":\"" phase "\",\"runtimeStatus\":{"             \
    "\"runtimeReady\":\"1/2\"}}}"
#define NODE(name, ns, k, gpus)                                                                 \
    "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"" name "\",\"labels\":{" \
    "\"sampan.io/" ns ".imagenet\":\"imagenet-runtime-" #k "\"}},\"status\":{\"allocatable\":{" \
    "\"nvidia.com/gpu\":\"" #gpus "\",\"cpu\":\"8\"}}}"
#define SET_VOLUME                                                                                 \
    "{\"apiVersion\":\"v1\",\"kind\":\"PersistentVolumeClaim\",\"metadata\":{\"name\":"            \
    "\"imagenet\",\"namespace\":\"paddle-system\",\"uid\":\"u-pvc\"},\"spec\":{\"volumeName\":"    \
    "\"paddle-system.imagenet\"}},"                                                                \
    "{\"apiVersion\":\"v1\",\"kind\":\"PersistentVolume\",\"metadata\":{\"name\":"                 \
    "\"paddle-system.imagenet\",\"uid\":\"u-pv\"},\"spec\":{\"capacity\":{\"storage\":\"10Pi\"},"  \
    "\"accessModes\":[\"ReadOnlyMany\"],\"mountOptions\":[\"cache-dir=/c\"],"                      \
    "\"persistentVolumeReclaimPolicy\":\"Retain\","                                                \
    "\"storageClassName\":\"paddle-operator\",\"claimRef\":{\"namespace\":\"paddle-system\","      \
    "\"name\":\"imagenet\",\"uid\":\"u-pvc\"},\"csi\":{\"driver\":\"csi.sampan.io\",\"readOnly\":" \
    "true,"                                                                                        \
    "\"volumeHandle\":\"paddle-system-imagenet\",\"volumeAttributes\":{\"uri\":"                   \
    "\"bos://paddleflow-public.hkg.bcebos.com/imagenet\",\"version\":\"abc\",\"cache\":\"/c\","    \
    "\"profile\":\"shards\",\"peers\":\"http://imagenet:7716\",\"refresh\":\"1h\"},"               \
    "\"nodePublishSecretRef\":{\"name\":\"imagenet\",\"namespace\":\"paddle-system\"}}}}"

#define CLAIM(name)                                                                            \
    "{\"apiVersion\":\"v1\",\"kind\":\"PersistentVolumeClaim\",\"metadata\":{\"name\":\"" name \
    "\",\"namespace\":\"team\",\"uid\":\"u-claim\"},\"status\":{\"phase\":\"Bound\"}}"
/* A job whose results go to a set's store, with the volume of them and, `status` says how, the
 * claim. */
#define OUTPUT_JOB                                                                                \
    JOB "{\"output\":{\"sampleSetRef\":{\"name\":\"imagenet\"},\"mountPath\":\"/out\"}," WORKERS( \
        1) "}" OBJECTS SET("paddle-system", "Ready") "," SET_VOLUME
#define OUTPUT(phase)                                                                     \
    ",{\"apiVersion\":\"v1\",\"kind\":\"PersistentVolume\",\"metadata\":{\"name\":"       \
    "\"team.resnet-output\",\"uid\":\"u-v\",\"labels\":{\"sampan.io/owner\":\"u-job\"}}," \
    "\"status\":{\"phase\":\"Bound\"}},"                                                  \
    "{\"apiVersion\":\"v1\",\"kind\":\"PersistentVolumeClaim\",\"metadata\":{\"name\":"   \
    "\"resnet-output\",\"namespace\":\"team\",\"uid\":\"u-oc\",\"labels\":{"              \
    "\"sampan.io/owner\":\"u-job\"}},\"status\":{\"phase\":\"" phase "\"}}"

/* A pod of the job: what it has beside its name is in `notes` and `status`. */
#define POD(role, i, notes, node, status)                                                      \
    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"resnet-" role "-" #i     \
    "\",\"namespace\":\"team\",\"uid\":\"u-" role "-" #i "\",\"resourceVersion\":\"5\","       \
    "\"labels\":{\"sampan.io/owner\":\"u-job\",\"paddle-res-type\":\"" role                    \
    "\",\"sampan.io/index\":\"" #i "\",\"app.kubernetes.io/managed-by\":\"sampan-operator\"}," \
    "\"annotations\":{" notes "}},\"spec\":{" node "},\"status\":{" status "}}"
#define ON_NODE   "\"nodeName\":\"n1\""
#define PENDING   "\"phase\":\"Pending\""
#define WAITS(ip) "\"phase\":\"Pending\",\"podIP\":\"" ip "\""
#define RUNS(ip)                                                                                \
    "\"phase\":\"Running\",\"podIP\":\"" ip "\",\"initContainerStatuses\":[{\"name\":"          \
    "\"sampan-barrier\",\"state\":{\"terminated\":{\"exitCode\":0}}}],\"containerStatuses\":[{" \
    "\"ready\":true}]"
#define NP(n) "\"sampan.io/elastic-np\":\"" #n "\""
#define LET_DOWN                                                                             \
    "\"phase\":\"Running\",\"containerStatuses\":[{\"ready\":false,\"state\":{\"waiting\":{" \
    "\"reason\":\"CrashLoopBackOff\"}}}]"
#define UNREADY \
    "\"phase\":\"Running\",\"containerStatuses\":[{\"ready\":false,\"state\":{\"running\":{}}}]"
#define DONE(ip) "\"phase\":\"Succeeded\",\"podIP\":\"" ip "\""
#define FAILED(ip)                                                                         \
    "\"phase\":\"Failed\",\"podIP\":\"" ip "\",\"containerStatuses\":[{\"ready\":false,"   \
    "\"state\":{\"terminated\":{\"exitCode\":137,\"reason\":\"OOMKilled\",\"finishedAt\":" \
    "\"2026-11-21T23:59:50Z\"}}}]"
#define STATUS(text) ",\"status\":{" text "}"

static const struct {
    const char *name, *view;
    const char *etcd;
    bool volcano;
} rows[] = {
    /* --- the beginning --- */
    {"pdj-finalizer-first", HEAD "},\"spec\":" ARTICLE OBJECTS END, 0, 0},
    {"pdj-article",
     JOB ARTICLE OBJECTS SET("team", "Ready") "," CLAIM("imagenet") "," NODE(
         "n0", "team", 0, 2) "," NODE("n1", "team", 1, 2) END,
     0, 0},
    {"pdj-restricted",
     JOB "{\"worker\":{\"replicas\":1,\"template\":{\"spec\":{\"containers\":[{\"name\":\"c\","
         "\"image\":\"i\",\"securityContext\":{\"runAsUser\":7,\"runAsNonRoot\":true,"
         "\"privileged\":false,\"seccompProfile\":{\"type\":\"RuntimeDefault\"}}}]}}}}" OBJECTS END,
     0, 0},
    /* They were to be made a minute ago. */
    {"pdj-pods-are-refused",
     JOB "{" WORKERS(2) "}" STATUS(
         "\"phase\":\"Pending\",\"conditions\":[{\"type\":\"PodsReady\",\"status\":\"False\","
         "\"lastTransitionTime\":\"2026-11-21T23:59:00Z\"}]") OBJECTS END,
     0, 0},
    /* Its node cannot mount a volume of it, say. */
    {"pdj-does-not-start",
     JOB "{" WORKERS(2) "}" STATUS(
         "\"phase\":\"Starting\",\"conditions\":[{\"type\":\"PodsReady\",\"status\":\"False\","
         "\"lastTransitionTime\":\"2026-11-21T23:59:00Z\"}]")
         OBJECTS POD("worker", 0, "", ON_NODE, WAITS("10.0.0.1")) "," POD("worker", 1, "", ON_NODE,
                                                                          PENDING) END,
     0, 0},
    {"pdj-set-goes",
     JOB ARTICLE OBJECTS
     "{\"apiVersion\":\"batch.paddlepaddle.org/v1alpha1\",\"kind\":\"SampleSet\",\"metadata\":{"
     "\"name\":\"imagenet\",\"namespace\":\"team\",\"uid\":\"u-set\",\"deletionTimestamp\":"
     "\"2026-11-21T00:00:00Z\"},\"spec\":{},\"status\":{\"phase\":\"Ready\",\"conditions\":[{"
     "\"type\":\"Deletion\",\"status\":\"True\"}]}}," CLAIM("imagenet") END,
     0, 0},
    {"pdj-claim-missing", JOB ARTICLE OBJECTS SET("team", "Bound") END, 0, 0},
    {"pdj-article-elsewhere",
     JOB ARTICLE OBJECTS SET("paddle-system", "Ready") "," CLAIM("paddle-system.imagenet") "," NODE(
         "n0", "paddle-system", 0, 2) "," NODE("n1", "paddle-system", 1, 2) END,
     0, 0},
    {"pdj-article-as-printed",
     JOB ARTICLE OBJECTS
     "{\"apiVersion\":\"batch.paddlepaddle.org/v1alpha1\",\"kind\":\"SampleSet\",\"metadata\":{"
     "\"name\":\"imagenet\",\"namespace\":\"paddle-system\",\"uid\":\"u-set\"},\"spec\":{"
     "\"partitions\":2,\"source\":{\"uri\":\"bos://paddleflow-public.hkg.bcebos.com/"
     "imagenet\"},\"secretRef\":{\"name\":\"imagenet\"}},\"status\":{\"phase\":\"Bound\"}}"
     "," SET_VOLUME END,
     0, 0},
    {"pdj-bad-name-of-services",
     "{\"now\":1795305600,\"object\":{\"apiVersion\":\"batch.paddlepaddle.org/v1\",\"kind\":"
     "\"PaddleJob\",\"metadata\":{\"name\":\"a.b\",\"namespace\":\"team\",\"uid\":\"u-job\","
     "\"resourceVersion\":\"7\",\"generation\":3" FINAL
     "},\"spec\":{\"intranet\":\"Service\"," WORKERS(1) "}" OBJECTS END,
     0, 0},
    {"pdj-set-missing", JOB ARTICLE OBJECTS END, 0, 0},
    {"pdj-set-not-ready", JOB ARTICLE OBJECTS SET("team", "Syncing") "," CLAIM("imagenet") END, 0,
     0},
    {"pdj-set-not-ready-immediate",
     JOB "{\"startPolicy\":\"Immediate\",\"sampleSetRef\":{\"name\":\"imagenet\",\"mountPath\":"
         "\"/data\"}," WORKERS(1) "}" OBJECTS SET("team", "Syncing") "," CLAIM("imagenet") END,
     0, 0},
    {"pdj-node-without-devices",
     JOB ARTICLE OBJECTS SET("team", "Ready") "," CLAIM("imagenet") "," NODE(
         "n0", "team", 0, 2) "," NODE("n1", "team", 1, 0) END,
     0, 0},
    {"pdj-users-affinity-is-kept",
     JOB
     "{\"sampleSetRef\":{\"name\":\"imagenet\",\"mountPath\":\"/data\"},\"worker\":{"
     "\"replicas\":3,\"template\":{\"metadata\":{\"labels\":{\"mine\":\"yes\"}},\"spec\":{"
     "\"affinity\":{\"podAntiAffinity\":{\"x\":1},\"nodeAffinity\":{"
     "\"requiredDuringSchedulingIgnoredDuringExecution\":{\"nodeSelectorTerms\":[{"
     "\"matchExpressions\":[{\"key\":\"zone\",\"operator\":\"In\",\"values\":[\"a\"]}]},{"
     "\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":\"In\",\"values\":[\"n7\"]}]},"
     "{}]}}},\"nodeSelector\":{\"disk\":\"ssd\"},\"containers\":[{\"name\":\"c\",\"image\":"
     "\"i\",\"env\":[{\"name\":\"TRAINING_ROLE\",\"value\":\"MINE\"}],\"volumeMounts\":[{"
     "\"name\":\"v\",\"mountPath\":\"/v\"}]},{\"name\":\"side\",\"image\":\"s\"}],"
     "\"volumes\":[{\"name\":\"v\",\"emptyDir\":{}}]}}}}" OBJECTS SET("team", "Ready") "," CLAIM(
         "imagenet") "," NODE("n0", "team", 0, 2) "," NODE("n1", "team", 1, 2) END,
     0, 0},
    {"pdj-placement-preferred",
     JOB "{\"placement\":\"Preferred\",\"sampleSetRef\":{\"name\":\"imagenet\",\"mountPath\":"
         "\"/data\"}," WORKERS(1) "}" OBJECTS SET("team", "Ready") "," CLAIM("imagenet") "," NODE(
             "n0", "team", 0, 2) END,
     0, 0},
    {"pdj-output-of-a-set",
     JOB "{\"output\":{\"sampleSetRef\":{\"name\":\"imagenet\"},\"mountPath\":\"/out\"}," WORKERS(
         1) "}" OBJECTS SET("paddle-system", "Ready") "," SET_VOLUME END,
     0, 0},
    {"pdj-output-volume-known",
     JOB "{\"output\":{\"sampleSetRef\":{\"name\":\"imagenet\"},\"mountPath\":\"/out\"}," WORKERS(
         1) "}" OBJECTS SET("paddle-system", "Ready") "," SET_VOLUME
                                                      ",{\"apiVersion\":\"v1\",\"kind\":"
                                                      "\"PersistentVolume\",\"metadata\":{\"name\":"
                                                      "\"team.resnet-output\",\"uid\":\"u-v\","
                                                      "\"labels\":{\"sampan.io/owner\":\"u-job\"}},"
                                                      "\"status\":{\"phase\":\"Available\"}}" END,
     0, 0},
    {"pdj-output-not-bound", OUTPUT_JOB OUTPUT("Pending") END, 0, 0},
    {"pdj-output-bound", OUTPUT_JOB OUTPUT("Bound") END, 0, 0},
    {"pdj-output-taken", OUTPUT_JOB "," CLAIM("resnet-output") END, 0, 0},
    {"pdj-claim-not-bound-elsewhere",
     JOB ARTICLE OBJECTS SET(
         "paddle-system",
         "Ready") ","
                  "{\"apiVersion\":\"v1\",\"kind\":\"PersistentVolumeClaim\",\"metadata\":{"
                  "\"name\":"
                  "\"paddle-system.imagenet\",\"namespace\":\"team\",\"uid\":\"u-claim\"}}" END,
     0, 0},
    {"pdj-output-of-a-claim",
     JOB "{\"output\":{\"persistentVolumeClaim\":{\"name\":\"results\"},\"mountPath\":\"/"
         "out\"}," WORKERS(1) "}" OBJECTS END,
     0, 0},
    {"pdj-ps", JOB "{\"withGloo\":1," SERVERS(1) "," WORKERS(2) "}" OBJECTS END, 0, 0},
    {"pdj-service", JOB "{\"intranet\":\"Service\"," WORKERS(1) "}" OBJECTS END, 0, 0},
    {"pdj-host-asks-for-ports", JOB "{\"intranet\":\"Host\"," WORKERS(2) "}" OBJECTS END, 0, 0},
    {"pdj-host",
     HEAD FINAL
     ",\"annotations\":{\"host-port\":\"35060\"}},\"spec\":{\"intranet\":\"Host\"," SERVERS(
         1) "," WORKERS(1) "}" OBJECTS END,
     0, 0},
    {"pdj-volcano-group",
     JOB "{\"schedulingPolicy\":{\"queue\":\"q\",\"priorityClass\":\"high\"}," SERVERS(
         1) "," WORKERS(2) "}" OBJECTS END,
     0, 1},
    {"pdj-volcano-turn",
     JOB "{" WORKERS(
         1) "}" OBJECTS
            "{\"apiVersion\":\"scheduling.volcano.sh/v1beta1\",\"kind\":\"PodGroup\",\"metadata\":{"
            "\"name\":\"resnet\",\"namespace\":\"team\",\"uid\":\"u-g\",\"labels\":{"
            "\"sampan.io/owner\":\"u-job\"},\"annotations\":{\"sampan.io/made-of\":"
            "\"d9c3b1f3f3a94b43\"}},\"spec\":{},\"status\":{\"phase\":\"Inqueue\"}}" END,
     0, 1},
    {"pdj-volcano-queues-again",
     JOB "{" WORKERS(1) "}" OBJECTS POD(
         "worker", 0, "", ON_NODE,
         RUNS("10.0.0.1")) ","
                           "{\"apiVersion\":\"scheduling.volcano.sh/"
                           "v1beta1\",\"kind\":\"PodGroup\",\"metadata\":{"
                           "\"name\":\"resnet\",\"namespace\":\"team\",\"uid\":\"u-g\",\"labels\":{"
                           "\"sampan.io/owner\":\"u-job\"},\"annotations\":{\"sampan.io/made-of\":"
                           "\"d9c3b1f3f3a94b43\"}},\"spec\":{},\"status\":{\"phase\":\"Pending\"}"
                           "}" END,
     0, 1},
    {"pdj-elastic-forgets",
     JOB "{\"elastic\":1,\"worker\":{\"replicas\":2,\"requests\":1,\"limits\":4," TEMPLATE
         "}}" OBJECTS END,
     "http://etcd:2379,http://other:2379", 0},
    {"pdj-elastic",
     HEAD FINAL ",\"annotations\":{\"sampan.io/elastic-np\":\"2\"}},\"spec\":{\"elastic\":1,"
                "\"worker\":{\"replicas\":2,\"requests\":1,\"limits\":4," TEMPLATE "}}" OBJECTS END,
     "http://etcd:2379,http://other:2379", 0},
    {"pdj-elastic-grows",
     HEAD FINAL
     ",\"annotations\":{\"sampan.io/elastic-np\":\"1\"}},\"spec\":{\"elastic\":1," WORKERS(
         2) "}" OBJECTS POD("worker", 0, "", ON_NODE, RUNS("10.0.0.1")) END,
     "etcd:2379", 0},
    /* One that runs stays; who has not begun is made anew, whether it waits or was let down. */
    {"pdj-elastic-grows-before-all-run",
     HEAD FINAL
     ",\"annotations\":{\"sampan.io/elastic-np\":\"4\"}},\"spec\":{\"elastic\":1," WORKERS(
         5) "}" OBJECTS
         POD("worker", 0, NP(4), ON_NODE, RUNS("10.0.0.1")) "," POD(
             "worker", 1, NP(4), "",
             PENDING) "," POD("worker", 2, NP(4), ON_NODE,
                              LET_DOWN) "," POD("worker", 3, NP(4), ON_NODE,
                                                UNREADY) "," POD("worker", 4, NP(5), "", PENDING)
             END,
     "etcd:2379", 0},
    {"pdj-elastic-shrinks-to-those-that-run",
     HEAD FINAL
     ",\"annotations\":{\"sampan.io/elastic-np\":\"2\"}},\"spec\":{\"elastic\":1," WORKERS(
         1) "}" OBJECTS POD("worker", 0, NP(2), ON_NODE,
                            RUNS("10.0.0.1")) "," POD("worker", 1, NP(2), "", PENDING) END,
     "etcd:2379", 0},
    {"pdj-elastic-grows-again",
     HEAD FINAL
     ",\"annotations\":{\"sampan.io/elastic-np\":\"1\"}},\"spec\":{\"elastic\":1," WORKERS(
         2) "}" STATUS("\"startTime\":\"2026-11-21T00:00:00Z\"")
         OBJECTS POD("worker", 0, "", ON_NODE, RUNS("10.0.0.1")) END,
     "etcd:2379", 0},
    {"pdj-suspended",
     JOB "{\"suspend\":true," WORKERS(1) "}" OBJECTS POD("worker", 0, "", ON_NODE, RUNS("10.0.0.1"))
         END,
     0, 0},

    /* --- on the way --- */
    {"pdj-one-has-no-address",
     JOB "{" WORKERS(2) "}" OBJECTS POD("worker", 0, "", ON_NODE, WAITS("10.0.0.1")) "," POD(
         "worker", 1, "", "", PENDING) END,
     0, 0},
    {"pdj-all-have-addresses",
     JOB "{" WORKERS(2) "}" OBJECTS POD("worker", 0, "", ON_NODE, WAITS("10.0.0.1")) "," POD(
         "worker", 1, "", ON_NODE, WAITS("10.0.0.2")) END,
     0, 0},
    {"pdj-ps-all-have-addresses",
     JOB "{\"withGloo\":1," SERVERS(
         1) ",\"heter\":{\"replicas\":1," TEMPLATE
            "}," WORKERS(1) "}" OBJECTS POD("ps", 0, "", ON_NODE, WAITS("10.0.0.1")) "," POD(
                "worker", 0, "", ON_NODE, WAITS("10.0.0.2")) "," POD("heter", 0, "", ON_NODE,
                                                                     WAITS("10.0.0.3")) END,
     0, 0},
    {"pdj-service-all-have-addresses",
     JOB "{\"intranet\":\"Service\"," WORKERS(2) "}" OBJECTS POD(
         "worker", 0, "", ON_NODE, WAITS("fd00::1")) "," POD("worker", 1, "", ON_NODE,
                                                             WAITS("fd00::2")) END,
     0, 0},
    {"pdj-runs",
     JOB "{" WORKERS(1) "}" OBJECTS POD("worker", 0, "\"sampan.io/peers\":\"a.b\"", ON_NODE,
                                        "\"phase\":\"Running\",\"containerStatuses\":[{\"ready\":"
                                        "true}]") END,
     0, 0},
    {"pdj-peers-moved",
     JOB "{" WORKERS(2) "}" STATUS("\"startTime\":\"2026-11-21T00:00:00Z\"")
         OBJECTS POD("worker", 0, "\"sampan.io/peers\":\"a.b\"", ON_NODE,
                     RUNS("10.0.0.1")) "," POD("worker", 1, "", ON_NODE, WAITS("10.0.0.9")) END,
     0, 0},
    {"pdj-fewer-workers",
     JOB "{" WORKERS(1) "}" OBJECTS POD("worker", 1, "", ON_NODE, RUNS("10.0.0.2")) "," POD(
         "worker", 0, "", ON_NODE, PENDING) END,
     0, 0},
    {"pdj-no-node-takes-it",
     JOB "{" WORKERS(1) "}" OBJECTS POD(
         "worker", 0, "", "",
         PENDING ",\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\",\"reason\":"
                 "\"Unschedulable\",\"message\":\"0/3 nodes are available: 3 Insufficient "
                 "nvidia.com/gpu.\"}]") END,
     0, 0},
    {"pdj-no-image",
     JOB "{" WORKERS(1) "}" OBJECTS POD("worker", 0, "", ON_NODE,
                                        PENDING ",\"containerStatuses\":[{\"ready\":false,"
                                                "\"state\":{\"waiting\":{\"reason\":"
                                                "\"ImagePullBackOff\"}}}]") END,
     0, 0},
    {"pdj-node-lost",
     JOB "{" WORKERS(1) "}" OBJECTS POD(
         "worker", 0, "", ON_NODE,
         RUNS("10.0.0.1") ",\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\"}]") END,
     0, 0},

    /* --- failures --- */
    {"pdj-fails",
     JOB "{" WORKERS(2) "}" OBJECTS POD("worker", 0, "", ON_NODE, RUNS("10.0.0.1")) "," POD(
         "worker", 1, "", ON_NODE, FAILED("10.0.0.2")) END,
     0, 0},
    {"pdj-fails-too-often",
     JOB "{\"backoffLimit\":1," WORKERS(1) "}" STATUS("\"restarts\":1")
         OBJECTS POD("worker", 0, "\"sampan.io/attempt\":\"1\"", ON_NODE, FAILED("10.0.0.2")) END,
     0, 0},
    {"pdj-backs-off",
     JOB "{\"backoffLimit\":5," WORKERS(1) "}" STATUS("\"restarts\":2")
         OBJECTS POD("worker", 0, "\"sampan.io/attempt\":\"2\"", ON_NODE, FAILED("10.0.0.2")) END,
     0, 0},
    {"pdj-counts-a-failure",
     JOB "{\"backoffLimit\":3," WORKERS(1) "}" OBJECTS POD("worker", 0, "", ON_NODE,
                                                           FAILED("10.0.0.2")) END,
     0, 0},
    {"pdj-counted-a-failure",
     JOB "{\"backoffLimit\":3," WORKERS(1) "}" OBJECTS POD(
         "worker", 0, "\"sampan.io/counted\":\"1\"", ON_NODE, FAILED("10.0.0.2")) END,
     0, 0},
    {"pdj-all-start-again",
     JOB "{\"backoffLimit\":3," WORKERS(2) "}" STATUS("\"restarts\":1")
         OBJECTS POD("worker", 0, "\"sampan.io/counted\":\"1\"", ON_NODE,
                     FAILED("10.0.0.2")) "," POD("worker", 1, "\"sampan.io/attempt\":\"0\"",
                                                 ON_NODE, RUNS("10.0.0.3")) END,
     0, 0},
    {"pdj-ps-worker-alone-starts-again",
     JOB "{\"backoffLimit\":3," SERVERS(1) "," WORKERS(2) "}" STATUS("\"restarts\":1")
         OBJECTS POD("ps", 0, "", ON_NODE, RUNS("10.0.0.1")) "," POD(
             "worker", 0, "\"sampan.io/counted\":\"1\"", ON_NODE,
             FAILED("10.0.0.2")) "," POD("worker", 1, "", ON_NODE, RUNS("10.0.0.3")) END,
     0, 0},
    {"pdj-ps-server-takes-all",
     JOB "{\"backoffLimit\":3," SERVERS(1) "," WORKERS(1) "}" STATUS("\"restarts\":1")
         OBJECTS POD("ps", 0, "\"sampan.io/counted\":\"1\"", ON_NODE,
                     FAILED("10.0.0.1")) "," POD("worker", 0, "", ON_NODE, RUNS("10.0.0.2")) END,
     0, 0},

    /* --- the end --- */
    {"pdj-workers-decide",
     JOB "{" SERVERS(1) "," WORKERS(1) "}" OBJECTS POD(
         "ps", 0, "", ON_NODE, RUNS("10.0.0.1")) "," POD("worker", 0, "", ON_NODE, DONE("10.0.0.2"))
         END,
     0, 0},
    {"pdj-completed-cleans-up",
     JOB "{" SERVERS(1) "," WORKERS(1) "}" STATUS("\"phase\":\"Completed\"")
         OBJECTS POD("ps", 0, "", ON_NODE, RUNS("10.0.0.1")) "," POD("worker", 0, "", ON_NODE,
                                                                     DONE("10.0.0.2")) END,
     0, 0},
    {"pdj-completed-never-cleans",
     JOB "{\"cleanPodPolicy\":\"Never\"," SERVERS(1) "," WORKERS(1) "}" STATUS(
         "\"phase\":\"Completed\"")
         OBJECTS POD("ps", 0, "", ON_NODE, RUNS("10.0.0.1")) "," POD("worker", 0, "", ON_NODE,
                                                                     DONE("10.0."
                                                                          "0."
                                                                          "2")) END,
     0, 0},
    {"pdj-failed-keeps-what-failed",
     JOB "{" WORKERS(2) "}" STATUS("\"phase\":\"Failed\"")
         OBJECTS POD("worker", 0, "", ON_NODE, RUNS("10.0.0.1")) "," POD("worker", 1, "", ON_NODE,
                                                                         FAILED("10.0.0.2")) END,
     0, 0},
    {"pdj-failed-cleans-up",
     JOB "{\"cleanPodPolicy\":\"OnFailure\"," WORKERS(1) "}" STATUS("\"phase\":\"Failed\"")
         OBJECTS POD("worker", 0, "", ON_NODE, FAILED("10.0.0.2")) END,
     0, 0},
    {"pdj-failed-never-cleans",
     JOB "{\"cleanPodPolicy\":\"Never\"," WORKERS(1) "}" STATUS("\"phase\":\"Failed\"")
         OBJECTS POD("worker", 0, "", ON_NODE, RUNS("10.0.0.2")) END,
     0, 0},
    {"pdj-ttl-waits",
     JOB "{\"ttlSecondsAfterFinished\":60," WORKERS(1) "}" STATUS(
         "\"phase\":\"Completed\",\"completionTime\":\"2026-11-21T23:59:30Z\"") OBJECTS END,
     0, 0},
    {"pdj-ttl-is-over",
     JOB "{\"ttlSecondsAfterFinished\":10," WORKERS(1) "}" STATUS(
         "\"phase\":\"Completed\",\"completionTime\":\"2026-11-21T23:59:30Z\"") OBJECTS END,
     0, 0},
    {"pdj-deleted",
     HEAD FINAL ",\"deletionTimestamp\":\"2026-11-21T00:00:00Z\"},\"spec\":{" WORKERS(1) "}" STATUS(
         "\"phase\":\"Running\"") OBJECTS POD("worker", 0, "", ON_NODE, RUNS("10.0.0.2")) END,
     0, 0},
    {"pdj-deleted-terminating",
     HEAD FINAL ",\"deletionTimestamp\":\"2026-11-21T00:00:00Z\",\"annotations\":{"
                "\"sampan.io/set\":\"paddle-system/imagenet\"}},\"spec\":{" WORKERS(1) "}" STATUS(
                    "\"phase\":\"Terminating\"") OBJECTS
     "{\"apiVersion\":\"v1\",\"kind\":\"PersistentVolumeClaim\",\"metadata\":{\"name\":"
     "\"resnet-output\",\"namespace\":\"team\",\"uid\":\"u-c\",\"labels\":{"
     "\"sampan.io/owner\":\"u-job\"}}},"
     "{\"apiVersion\":\"v1\",\"kind\":\"PersistentVolume\",\"metadata\":{\"name\":"
     "\"team.resnet-output\",\"uid\":\"u-v\",\"labels\":{\"sampan.io/owner\":\"u-job\"}}}" END,
     0, 0},
    {"pdj-deleted-nothing-left",
     HEAD ",\"deletionTimestamp\":\"2026-11-21T00:00:00Z\"},\"spec\":{" WORKERS(1) "}" OBJECTS END,
     0, 0},

    /* --- what users get wrong --- */
    {"pdj-bad-spec", JOB "{\"worker\":{\"replicas\":\"two\"}}" OBJECTS END, 0, 0},
    {"pdj-bad-no-pods", JOB "{\"worker\":{\"replicas\":0}}" OBJECTS END, 0, 0},
    {"pdj-bad-no-container", JOB "{\"worker\":{\"replicas\":1,\"template\":{}}}" OBJECTS END, 0, 0},
    {"pdj-bad-no-mount-path",
     JOB "{\"sampleSetRef\":{\"name\":\"imagenet\"}," WORKERS(1) "}" OBJECTS END, 0, 0},
    {"pdj-bad-same-mount-path",
     JOB
     "{\"sampleSetRef\":{\"name\":\"x\",\"mountPath\":\"/d\"},\"output\":{"
     "\"persistentVolumeClaim\":{\"name\":\"r\"},\"mountPath\":\"/d\"}," WORKERS(1) "}" OBJECTS END,
     0, 0},
    {"pdj-bad-elastic-without-etcd", JOB "{\"elastic\":1," WORKERS(1) "}" OBJECTS END, 0, 0},
    {"pdj-bad-output-elsewhere",
     JOB "{\"output\":{\"persistentVolumeClaim\":{\"name\":\"r\",\"namespace\":\"other\"},"
         "\"mountPath\":\"/o\"}," WORKERS(1) "}" OBJECTS END,
     0, 0},
    {"pdj-bad-config-map-taken",
     JOB "{" WORKERS(1) "}" OBJECTS POD(
         "worker", 0, "", ON_NODE,
         WAITS("10.0.0.1")) ",{"
                            "\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":"
                            "\"resnet\","
                            "\"namespace\":\"team\",\"uid\":\"u-x\"}}" END,
     0, 0},
};

Test(operator_paddlejob, decisions)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct operator_config config = golden_config;
        config.etcd_servers = rows[i].etcd;
        config.volcano = rows[i].volcano;
        golden_check(&paddlejob_controller, &config, rows[i].name, rows[i].view);
    }
}

Test(operator_paddlejob, ports_are_those_of_the_range_and_its_ends)
{
    static const char job[] = JOB "{\"intranet\":\"Host\"," WORKERS(2) "}" OBJECTS END;
    struct operator_config config = golden_config;
    config.port_to = config.port_from + 59;
    golden_check(&paddlejob_controller, &config, "pdj-host-in-the-only-row", job);
    config.port_to--;
    golden_check(&paddlejob_controller, &config, "pdj-host-no-row", job);
}

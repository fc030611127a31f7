/*
 * Style tensor: for each task a ReplicaSet of one pod and a Service of the same name, so that a pod
 * that is made anew is found where it was. All have one image and differ by their command line.
 * When the number of tasks changes, all templates get the new hosts; pods that run are left alone.
 */
#include <inttypes.h>
#include <string.h>

#include "mem.h"
#include "trainingjob-internal.h"

#define TASK_LABEL "sampan.io/task"

static char *task_name(const struct training *t, const char *role, int64_t i)
{
    return part_name(57, "%s-%s-%" PRId64, t->name, role, i);
}

static char *hosts(const struct training *t, const char *role, int64_t n)
{
    struct bytes out = {0};
    for (int64_t i = 0; i < n; i++) {
        cleanup_free char *name = task_name(t, role, i);
        bytes_addf(&out, "%s%s:%d", i ? "," : "", name, TENSOR_PORT);
    }
    return bytes_take(&out);
}

/* `entry` is for a role that has no entrypoint. */
static void want_tasks(struct training *t, const char *role, const struct trainingjob_role *r,
                       int64_t n, const char *entry, const char *ps, const char *workers)
{
    bool is_worker = strcmp(role, "worker") == 0;
    const char *own = r && r->entrypoint ? r->entrypoint : entry;
    /* Workers have a GPU unless the user says otherwise; servers none unless the user says so. */
    const char *resources =
        is_worker && (!r || !r->resources) ? "{\"limits\":{\"nvidia.com/gpu\":\"1\"}}" : NULL;
    for (int64_t i = 0; i < n; i++) {
        cleanup_free char *name = task_name(t, role, i);
        cleanup_free char *command =
            xasprintf("%s --job_name=%s --task_index=%" PRId64 " --ps_hosts=%s --worker_hosts=%s",
                      own ? own : "python train.py", role, i, ps, workers);
        training_want(t, &(struct training_child){.kind = KIND_REPLICASET,
                                                  .name = name,
                                                  .label = TASK_LABEL,
                                                  .label_value = name,
                                                  .image = t->spec->image,
                                                  .container = role,
                                                  .command = command,
                                                  .role = r,
                                                  .resources = resources,
                                                  .replicas = 1,
                                                  .port = TENSOR_PORT,
                                                  .n_ports = 1});
        training_want_service(t, name, TASK_LABEL, name, TENSOR_PORT, NULL);
    }
}

static void want_board(struct training *t)
{
    const struct trainingjob_board *b = t->spec->board;
    cleanup_free char *name = task_name(t, "tensorboard", 0);
    cleanup_free char *command = xasprintf("tensorboard --logdir=%s --host=0.0.0.0 --port=%d",
                                           b && b->logdir ? b->logdir : "/logs", BOARD_PORT);
    training_want(t, &(struct training_child){.kind = KIND_REPLICASET,
                                              .name = name,
                                              .label = TASK_LABEL,
                                              .label_value = name,
                                              .image = b && b->image ? b->image : t->spec->image,
                                              .container = "tensorboard",
                                              .command = command,
                                              .resources = b ? b->resources : NULL,
                                              .replicas = 1,
                                              .port = BOARD_PORT,
                                              .n_ports = 1});
    training_want_service(t, name, TASK_LABEL, name, BOARD_PORT, "NodePort");
}

static void want_serving(struct training *t)
{
    const struct trainingjob_serving *s = t->spec->serving;
    cleanup_free char *name = part_name(57, "%s-serving", t->name);
    if (!s)
        return;
    training_want(t, &(struct training_child){.kind = KIND_REPLICASET,
                                              .name = name,
                                              .label = TASK_LABEL,
                                              .label_value = name,
                                              .image = s->image,
                                              .container = "serving",
                                              .command = s->entrypoint,
                                              .resources = s->resources,
                                              .replicas = s->replicas,
                                              .port = s->port,
                                              .n_ports = 1});
    training_want_service(t, name, TASK_LABEL, name, s->port, NULL);
}

void training_tensor(struct training *t)
{
    const struct trainingjob_role *trainer = t->spec->trainer; /* every job has it */
    int64_t n_ps = t->spec->pserver ? t->spec->pserver->min : 1, n_workers = trainer->min;
    cleanup_free char *ps = hosts(t, "ps", n_ps), *workers = hosts(t, "worker", n_workers);
    want_tasks(t, "ps", t->spec->pserver, n_ps, trainer->entrypoint, ps, workers);
    want_tasks(t, "worker", trainer, n_workers, NULL, ps, workers);
    want_board(t);
    want_serving(t);
    t->parallelism = n_workers;
    t->phase = t->ready == t->wanted            ? "Running"
               : json_has(&t->was, "startTime") ? "Scaling"
                                                : "Creating";
}

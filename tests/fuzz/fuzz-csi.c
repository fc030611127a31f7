/*
 * Anything at all as a request of any method: it is answered, and nothing is run or mounted that
 * the mounter of this test would not see. The first byte chooses the method.
 */
#include <stdint.h>
#include <string.h>

#include "controller.h"
#include "mounter.h"
#include "node.h"
#include "service.h"

static int no_run(struct mounter *m, const char *const *argv, uint64_t deadline_ns,
                  struct bytes *out, struct err *err)
{
    (void)m;
    (void)argv;
    (void)deadline_ns;
    (void)out;
    return err_set(err, ERR_FAILED, "nothing is run here");
}

static int no_look(struct mounter *m, const char *path, struct mount_look *ret, struct err *err)
{
    (void)m;
    (void)path;
    (void)err;
    *ret = (struct mount_look){0};
    return 0;
}

static void no_serving(struct mounter *m, const char *mountpoint, struct mount_serving *ret)
{
    (void)m;
    (void)mountpoint;
    *ret = (struct mount_serving){0};
}

static int no_path(struct mounter *m, const char *path, struct err *err)
{
    (void)m;
    (void)path;
    return err_set(err, ERR_FAILED, "nothing is mounted here");
}

static const struct mounter_ops ops = {
    .run = no_run, .look = no_look, .serving = no_serving, .unbind = no_path};
static struct mounter none = {&ops};
static struct plugin plugin;

static int open_all(void)
{
    char top[] = "/tmp/fuzz-csi-XXXXXX";
    if (!mkdtemp(top))
        return -1;
    static char state[64], run[64], kubelet[64];
    snprintf(state, sizeof state, "%s/state", top);
    snprintf(run, sizeof run, "%s/run", top);
    snprintf(kubelet, sizeof kubelet, "%s/kubelet", top);
    const struct node_conf node = {.state = state,
                                   .run = run,
                                   .kubelet_dir = kubelet,
                                   .node_id = "n",
                                   .driver_name = "d",
                                   .mounter = &none,
                                   .no_watch = true};
    const struct controller_conf controller = {
        .state = state, .run = run, .driver_name = "d", .mounter = &none};
    plugin = (struct plugin){.driver_name = "d", .node_id = "n"};
    return node_open(&plugin.node, &node, NULL) ||
                   controller_open(&plugin.controller, &controller, NULL)
               ? -1
               : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct rpc_method **methods;
    static size_t n;
    if (!methods) {
        if (open_all())
            return 0;
        methods = service_methods(&plugin, &n);
    }
    if (!size)
        return 0;
    struct arena arena = {0};
    struct bytes out = {0};
    struct err err = {0};
    rpc_answer(methods[data[0] % n], &plugin, data + 1, size - 1, &out, NULL, &arena, &err);
    bytes_release(&out);
    arena_release(&arena);
    return 0;
}

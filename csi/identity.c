/* The Identity service. */
#include "mem.h"
#include "pb.h"
#include "service.h"

#ifndef SAMPAN_VERSION
#define SAMPAN_VERSION "dev"
#endif

static enum rpc_code get_info(void *arg, struct rpc_call *call, const void *request, void *response,
                              struct err *err)
{
    const struct plugin *p = arg;
    PB(GetPluginInfoResponse) *r = response;
    (void)request;
    (void)err;
    r->name = arena_text(call->arena, p->driver_name);
    r->vendor_version = arena_text(call->arena, SAMPAN_VERSION);
    return RPC_OK;
}

static enum rpc_code get_capabilities(void *arg, struct rpc_call *call, const void *request,
                                      void *response, struct err *err)
{
    const struct plugin *p = arg;
    PB(GetPluginCapabilitiesResponse) *r = response;
    (void)request;
    (void)err;
    if (!p->controller)
        return RPC_OK;
    PB(PluginCapability) *c = PB_NEW(call->arena, PluginCapability, PLUGIN_CAPABILITY);
    c->service = PB_NEW(call->arena, PluginCapability__Service, PLUGIN_CAPABILITY__SERVICE);
    c->service->type = CSI__V1__PLUGIN_CAPABILITY__SERVICE__TYPE__CONTROLLER_SERVICE;
    r->capabilities = arena_alloc(call->arena, sizeof *r->capabilities);
    r->capabilities[0] = c;
    r->n_capabilities = 1;
    return RPC_OK;
}

static enum rpc_code probe(void *arg, struct rpc_call *call, const void *request, void *response,
                           struct err *err)
{
    const struct plugin *p = arg;
    PB(ProbeResponse) *r = response;
    struct err why = {0};
    (void)request;
    if (p->ready && !p->ready(p, &why))
        return rpc_fail(err, RPC_FAILED_PRECONDITION, "%s", why.msg);
    r->ready = PB_NEW(call->arena, BoolValue, BOOL_VALUE);
    r->ready->value = true;
    return RPC_OK;
}

const struct rpc_method identity_methods[] = {
    METHOD("Identity", GetPluginInfo, get_plugin_info, get_info, 10),
    METHOD("Identity", GetPluginCapabilities, get_plugin_capabilities, get_capabilities, 10),
    METHOD("Identity", Probe, probe, probe, 10),
};
const size_t n_identity_methods = sizeof identity_methods / sizeof identity_methods[0];

static size_t add(const struct rpc_method **list, size_t n, const struct rpc_method *rows,
                  size_t n_rows)
{
    for (size_t i = 0; i < n_rows; i++)
        list[n++] = &rows[i];
    return n;
}

const struct rpc_method **service_methods(const struct plugin *p, size_t *ret_n)
{
    const struct rpc_method **list =
        xcalloc(n_identity_methods + n_controller_methods + n_node_methods, sizeof *list);
    size_t n = add(list, 0, identity_methods, n_identity_methods);
    if (p->controller)
        n = add(list, n, controller_methods, n_controller_methods);
    if (p->node)
        n = add(list, n, node_methods, n_node_methods);
    *ret_n = n;
    return list;
}

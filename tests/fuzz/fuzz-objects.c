/* Objects that users write for Kubernetes, and YAML (kubeconfig): taken, or refused with a reason.
 * The first byte picks the kind. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kube.h"
#include "paddlejob.h"
#include "samplejob.h"
#include "sampleset.h"
#include "trainingjob.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* It is taken whole, or refused with a reason. */
static void check_object(const struct api_object *o, const char *text, size_t len)
{
    cleanup_json struct json_doc *doc = NULL;
    struct err err = {0};
    void *object = NULL;
    if (json_parse(&doc, "object", text, len, &err))
        return;
    struct json root = json_root(doc);
    if (api_read(o, &root, &object, &err) == 0)
        api_free(o, object);
    else if (object || !err.msg[0] || err.class == ERR_BUG)
        abort();
}

static void check_yaml(const char *text, size_t len)
{
    cleanup_bytes struct bytes json = {0};
    struct err err = {0};
    if (kube_yaml("input", text, len, &json, &err) && (!err.msg[0] || err.class == ERR_BUG))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct api_kind *const kinds[] = {&api_sampleset, &api_samplejob, &api_paddlejob,
                                                   &api_trainingjob};
    if (!size)
        return 0;
    const char *text = (const char *)data + 1;
    unsigned which = data[0] % 9;
    if (which == 8)
        check_yaml(text, size - 1);
    else
        check_object(which < 4 ? kinds[which]->spec : kinds[which - 4]->status, text, size - 1);
    return 0;
}

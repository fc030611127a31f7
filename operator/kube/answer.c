/* What a refusal of the API server means: pure functions on bytes. */
#include <stdio.h>
#include <string.h>

#include "kube-internal.h"

#define TEXT_MAX 600

static enum err_class class_of(int status)
{
    switch (status) {
    case 401:
    case 403:
        return ERR_DENIED;
    case 404:
        return ERR_NOT_FOUND;
    case 409:
    case 410:
        return ERR_STALE;
    case 408:
    case 429:
        return ERR_TRANSIENT;
    default:
        return status >= 500 ? ERR_TRANSIENT : ERR_USAGE;
    }
}

/* What is forbidden may be the object itself as well (a quota, the level of its namespace): that
 * says what is wrong by itself. */
static const char *advice(int status, const char *message)
{
    if (status == 401)
        return " (is the token or certificate still valid?)";
    if (status == 403 && (!*message || strstr(message, "\" cannot ")))
        return " (see the rights in docs/operator.md)";
    return "";
}

int kube_refusal(struct kube_answer *a, const char *what, const char *body, size_t len,
                 struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    const char *reason = "", *message = "";
    if (len && json_parse(&doc, "answer", body, len, NULL) == 0) {
        struct json root = json_root(doc);
        if (json_str_or(&root, "reason", "", &reason, NULL))
            reason = "";
        if (json_str_or(&root, "message", "", &message, NULL))
            message = "";
    }
    snprintf(a->reason, sizeof a->reason, "%s", reason);
    return err_set(err, class_of(a->status), "%s: %d%s%s%s%.*s%s", what, a->status,
                   *reason ? " " : "", reason, *message ? ": " : "", TEXT_MAX, message,
                   advice(a->status, message));
}

/*
 * The place of an elastic job in etcd: /paddle/NAMESPACE-NAME, as the launcher has it.
 *
 * Two jobs may read alike there (a/b-c and a-b/c). One of them waits until the other has ended:
 * each would take the other's pods for its own.
 */
#include <inttypes.h>
#include <string.h>

#include "hash.h"
#include "mem.h"
#include "object.h"
#include "paddlejob-internal.h"

#define LOOK_S 10 /* at others and at etcd, which do not wake us */

static char *base64(const char *text)
{
    size_t len = strlen(text);
    char *out = xmalloc(BASE64_BYTES(len));
    base64_encode(out, text, len);
    return out;
}

/* A transaction, for any of the servers. */
static struct action *ask_etcd(struct job *j)
{
    cleanup_bytes struct bytes urls = {0};
    for (const char *at = j->config->etcd_servers; *at;) {
        size_t len = strcspn(at, ",");
        cleanup_free char *server = xstrndup(at, len);
        bytes_addf(&urls, "%s%s%s/v3/kv/txn", urls.len ? " " : "",
                   strstr(server, "://") ? "" : "http://", server);
        at += len + (at[len] == ',');
    }
    return act_send(&j->children, "POST", urls.data);
}

/* What a former job of this name left would tell the launcher that all is done. */
static void forget_former(struct job *j)
{
    cleanup_free char *first = xasprintf("/paddle/%s-%s/", j->ns, j->name);
    cleanup_free char *end = xasprintf("/paddle/%s-%s0", j->ns, j->name); /* '/' + 1 */
    cleanup_free char *whole = xasprintf("/paddle/%s-%s", j->ns, j->name);
    cleanup_free char *a = base64(first), *b = base64(end), *c = base64(whole);
    struct action *send = ask_etcd(j);
    bytes_addf(&send->body,
               "{\"success\":[{\"requestDeleteRange\":{\"key\":\"%s\"}},"
               "{\"requestDeleteRange\":{\"key\":\"%s\",\"range_end\":\"%s\"}}]}",
               c, a, b);
}

/* Before all pods have run a launcher makes the key, with the number that its pod was made with: a
 * number that is there already would end it, and whoever makes it after us overwrites nothing. So
 * until then it is told at each look. Afterwards etcd may have lost it. */
static void tell_size(struct job *j, const char *np)
{
    cleanup_free char *key = xasprintf("/paddle/%s-%s/np", j->ns, j->name);
    cleanup_free char *k = base64(key), *value = base64(np);
    struct action *send = ask_etcd(j);
    bytes_add_char(&send->body, '{');
    if (!j->started)
        bytes_addf(&send->body,
                   "\"compare\":[{\"key\":\"%s\",\"target\":\"VERSION\",\"result\":\"GREATER\","
                   "\"version\":\"0\"}],",
                   k);
    bytes_addf(&send->body, "\"success\":[{\"requestPut\":{\"key\":\"%s\",\"value\":\"%s\"}}]}", k,
               value);
}

/* Is it at our place, or will it be there before us? */
static bool goes_first(const struct job *j, const struct json *other)
{
    struct json spec = json_get(other, "spec"), status = json_get(other, "status");
    if (!json_has(&spec, "elastic") || json_has(&status, "completionTime"))
        return false;
    bool begins = !part_flag(&spec, "suspend") && !object_is_deleted(other) &&
                  !part_has_condition(other, "Valid", "False");
    return object_annotation(other, NP_NOTE) || (begins && job_is_later(j->object, other));
}

/* Another job that reads as ours does in etcd and goes first; NULL: none. */
static const struct json *who_goes_first(struct job *j)
{
    cleanup_free char *id = xasprintf("%s-%s", j->ns, j->name);
    for (char *dash = strchr(id, '-'); dash; dash = strchr(dash + 1, '-')) {
        *dash = '\0'; /* id is a namespace, and dash + 1 a name */
        const struct json *other =
            strcmp(id, j->ns) == 0 ? NULL : view_get(j->v, KIND_PADDLEJOB, id, dash + 1);
        if (other && goes_first(j, other))
            return other;
        *dash = '-';
    }
    return NULL;
}

bool job_gate_etcd(struct job *j)
{
    char np[24];
    const char *told = object_annotation(j->object, NP_NOTE);
    if (!job_is_elastic(j))
        return true;
    snprintf(np, sizeof np, "%zu", j->roles[job_deciding_role(j)].n);
    j->elastic = told && strcmp(told, np) == 0 ? "DONE" : "DOING";
    if (told && strcmp(told, np) == 0)
        return true;
    const struct json *other = told ? NULL : who_goes_first(j);
    if (other) {
        job_says(
            j,
            "waits for the end of job %s/%s: in etcd both are %s-%s (to run both at once, make "
            "one of them anew under another name)",
            object_namespace(other), object_name(other), j->ns, j->name);
        job_again(j, LOOK_S);
        return false;
    }
    bool settles = !told || j->started;
    job_says(j, "%s etcd (%s) %s the number of its pods (events NotTaken say why it does not)",
             settles ? "waits for" : "was resized before all its pods ran: until they do,",
             j->config->etcd_servers, settles ? "to take" : "is told");
    if (!told)
        forget_former(j);
    else
        tell_size(j, np);
    if (settles)
        job_annotate(j, NP_NOTE, np);
    else
        job_again(j, LOOK_S);
    return told != NULL;
}

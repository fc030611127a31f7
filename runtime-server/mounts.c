/* Asking the owners: one call on the control socket of a mount, found in the register each time, as
 * an owner may have come back under another process. */
#include <string.h>

#include "control.h"
#include "mem.h"
#include "server-internal.h"

/* An owner that dies is followed by the next one within a fraction of a second. */
#define TRIES      20
#define PATIENCE_S 20 /* a keeper replaces one that hangs after 10 s */

int mount_ask(const char *mountpoint, const char *op, const char *fields,
              mount_progress_fn *progress, void *arg, struct json_doc **ret, struct err *err)
{
    struct control_mount m;
    cleanup_bytes struct bytes request = {0};
    cleanup_json struct json_doc *pong = NULL;
    if ((!progress && mount_look(mountpoint, "ping", &pong, err)) ||
        control_find(mountpoint, &m, err))
        return -1;
    bytes_addf(&request, "{\"op\":\"%s\"%s%s}", op, *fields ? "," : "", fields);
    int rc = control_call_again(m.socket, &request, TRIES, progress, arg, ret, NULL, err);
    control_mount_release(&m);
    return rc ? err_wrap(err, "mount %s", mountpoint) : 0;
}

int mount_look(const char *mountpoint, const char *op, struct json_doc **ret, struct err *err)
{
    struct control_mount m;
    cleanup_bytes struct bytes request = {0};
    if (control_find(mountpoint, &m, err))
        return -1;
    bytes_addf(&request, "{\"op\":\"%s\"}", op);
    int rc = control_ask(m.socket, &request, TRIES, PATIENCE_S, ret, err);
    control_mount_release(&m);
    return rc ? err_wrap(err, "mount %s", mountpoint) : 0;
}

int mount_endpoint(const char *mountpoint, char **ret, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    const char *endpoint;
    if (mount_look(mountpoint, "status", &doc, err))
        return -1;
    struct json root = json_root(doc), status = json_get(&root, "status");
    if (json_str_or(&status, "endpoint", "", &endpoint, err))
        return -1;
    *ret = *endpoint ? xstrdup(endpoint) : NULL;
    return 0;
}

int mount_choose(const struct server *s, const char *named, const char **ret, struct err *err)
{
    if (!*named && s->conf.n_mounts == 1) {
        *ret = s->mounts[0];
        return 0;
    }
    for (size_t i = 0; i < s->conf.n_mounts; i++)
        if (strcmp(s->mounts[i], named) == 0) {
            *ret = s->mounts[i];
            return 0;
        }
    cleanup_bytes struct bytes known = {0};
    for (size_t i = 0; i < s->conf.n_mounts; i++)
        bytes_addf(&known, "%s%s", i ? " " : "", s->mounts[i]);
    return err_set(err, ERR_USAGE, "options.mount: \"%s\": want one of: %s", named,
                   known.data ? known.data : "(this server serves no mount)");
}

/* What a mount that can be written still owes to its store, in words. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli-internal.h"
#include "pending-internal.h"
#include "program.h"

void pending_text(const struct json *pending, struct bytes *out)
{
    char bytes[32];
    size_t at = out->len;
    uint64_t files = json_uint_at(pending, "files"), failed = json_uint_at(pending, "failed");
    struct json items = json_get(pending, "items"), first = json_at(&items, 0);
    conf_format_size(json_uint_at(pending, "bytes"), bytes);
    bytes_addf(out, "%" PRIu64 " file%s of %s not stored yet", files, files == 1 ? "" : "s", bytes);
    if (failed)
        bytes_addf(out, ", %" PRIu64 " failed", failed);
    if (json_count(&items) && *json_str_at(&first, "why"))
        bytes_addf(out, " (%s: %s)", json_str_at(&first, "path"), json_str_at(&first, "why"));
    one_line(out->data + at);
}

/* Something has been pending for two seconds. */
static bool tell(void *arg, const struct json *progress)
{
    const char *verb = arg;
    cleanup_bytes struct bytes text = {0};
    if (!progress)
        return true;
    struct json pending = json_get(progress, "pending");
    if (!pending.node)
        return true;
    pending_text(&pending, &text);
    fprintf(stderr, "sampan %s: waiting: %s\n", verb, text.data);
    return true;
}

int pending_flush(const struct control_mount *m, const char *verb, bool torn, struct err *err)
{
    cleanup_bytes struct bytes request = {0};
    cleanup_json struct json_doc *answer = NULL;
    struct json_writer w;
    ask_begin(&w, &request, "flush");
    if (torn)
        jw_bool(&w, "torn", true);
    return ask(m, &w, &request, tell, (void *)(uintptr_t)verb, &answer, err);
}

bool pending_of(const struct control_mount *m, struct bytes *ret)
{
    cleanup_json struct json_doc *answer = NULL;
    if (ask_status(m, &answer, NULL))
        return false;
    struct json root = json_root(answer), status = json_get(&root, "status");
    struct json pending = json_get(&status, "pending");
    if (!pending.node || !json_uint_at(&pending, "files"))
        return false;
    pending_text(&pending, ret);
    return true;
}

/* What a job may be told: the options of each type, and a template's schedule. Whatever is taken is
 * kept in one form, and that form is taken again as itself. The first byte picks the type. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "jobs-internal.h"
#include "server-internal.h"

static void check_schedule(const struct json *root)
{
    struct job_row row = {0};
    struct err err = {0};
    int64_t next = 0;
    if (schedule_parse(&row, root, 1700000000, &err) == 0 && row.schedule && *row.schedule &&
        schedule_next(&row, 1700000000, &next, &err) == 0)
        assert(next == -1 || next > 1700000000);
    row_release(&row);
}

/* In one form twice: the options as they are kept are options, and kept as they are. */
static void check_options(struct server *server, const struct job_kind *kind,
                          const struct json *root)
{
    struct bytes once = {0}, twice = {0}, touches = {0}, secret = {0};
    struct json_doc *doc = NULL;
    struct err err = {0};
    if (kind->check(server, root, &once, &secret, &err) == 0) {
        assert(json_parse(&doc, "kept", once.data, once.len, &err) == 0);
        struct json kept = json_root(doc);
        if (kind->touches)
            kind->touches(&kept, &touches);
        if (kind->check(server, &kept, &twice, &secret, &err) != 0)
            __builtin_trap();
        assert(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
    } else {
        assert(err.class != ERR_BUG && *err.msg);
    }
    json_doc_free(doc);
    bytes_release(&once);
    bytes_release(&twice);
    bytes_release(&touches);
    bytes_release(&secret);
}

static char mount[] = "/mnt/set";
static char *mounts[] = {mount, NULL};
static struct server s = {.mounts = mounts, .conf = {.n_mounts = 1, .partitions = 1}};

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const struct members_conf conf = {.partitions = 1, .instance = "0"};
    struct err err = {0};
    (void)argc;
    (void)argv;
    return members_open(&s.members, &conf, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json_doc *doc;
    if (!size || json_parse(&doc, "options", data + 1, size - 1, NULL))
        return -1;
    struct json root = json_root(doc);
    size_t which = data[0] % (n_job_kinds + 1);
    if (json_want_object(&root, NULL) == 0) {
        if (which == n_job_kinds)
            check_schedule(&root);
        else
            check_options(&s, &job_kinds[which], &root);
    }
    json_doc_free(doc);
    return 0;
}

/*
 * Which version of a set its mounts serve. Where spec.version names one, each mount that serves
 * another is told to go there and to stay; one that has not got it fetches it from another node.
 * Without it, mounts that stay at one are told to go on to the newest.
 */
#include <string.h>

#include "mem.h"
#include "object.h"
#include "sampleset-internal.h"

#define SERVED "VersionServed"

/* The mount's status says which versions are kept there, the served one first. */
static const char *kept_version(const struct set_row *row, size_t i)
{
    struct json all = json_get(&row->mount, "versions"), one = json_at(&all, i);
    return part_text(&one, "version");
}

static bool keeps(const struct set_row *row, const char *version)
{
    const char *kept;
    for (size_t i = 0; (kept = kept_version(row, i)); i++)
        if (strcmp(kept, version) == 0)
            return true;
    return false;
}

static bool is_pinned(const struct set_row *row)
{
    bool pinned = false;
    return json_bool_or(&row->mount, "pinned", false, &pinned, NULL) == 0 && pinned;
}

static bool stays_at(const struct set_row *row, const char *version)
{
    const char *served = part_text(&row->mount, "version");
    return is_pinned(row) && served && strcmp(served, version) == 0;
}

static void let_go(struct set_plan *p)
{
    for (size_t k = 0; k < p->n_rows; k++)
        if (is_pinned(&p->rows[k])) {
            set_tell(p, k, "version", "");
            plan_again(p, 1);
        }
}

static void say_not_kept(struct set_plan *p, const char *want)
{
    cleanup_bytes struct bytes names = {0};
    const struct set_row *row = p->rows;
    const char *kept;
    while (!row->mount.node)
        row++;
    for (size_t i = 0; (kept = kept_version(row, i)); i++)
        bytes_addf(&names, "%s%s", i ? ", " : "", kept);
    part_condition_warn(&p->conditions, SERVED, "NotKept",
                        "version %s is not kept on the set's nodes (let spec.version name one of "
                        "those that are: %s; or remove it, for the newest)",
                        want, names.data ? names.data : "");
}

void set_version(struct set_plan *p)
{
    const char *want = p->spec->version;
    size_t answered = 0, there = 0, kept = 0;
    if (!want || !*want) {
        let_go(p);
        return;
    }
    for (size_t k = 0; k < p->n_rows; k++) {
        answered += part_text(&p->rows[k].mount, "version") != NULL;
        there += stays_at(&p->rows[k], want);
        kept += keeps(&p->rows[k], want);
    }
    if (!answered) {
        if (part_condition_was(&p->conditions, SERVED))
            part_condition_keep(&p->conditions, SERVED);
    } else if (there == answered) {
        part_condition(&p->conditions, SERVED, "True", "Pinned",
                       "the version of spec.version is served, and stays");
    } else if (!kept) {
        say_not_kept(p, want);
    } else {
        part_condition(&p->conditions, SERVED, "False", "Switching",
                       "%zu of %zu mounts serve the version of spec.version", there, answered);
        for (size_t k = 0; k < p->n_rows; k++)
            if (part_text(&p->rows[k].mount, "version") && !stays_at(&p->rows[k], want))
                set_tell(p, k, "version", want);
        plan_again(p, 1);
    }
}

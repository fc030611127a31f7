/* doctor: cmd-doctor.c decides what to look at, doctor-machine.c looks at this machine and its
 * mounts, doctor-set.c at a set, its store and its cache folder, doctor-gc.c at what is unused. */
#ifndef SAMPAN_CLI_DOCTOR_INTERNAL_H
#define SAMPAN_CLI_DOCTOR_INTERNAL_H

#include "cli-internal.h"
#include "program.h"

enum verdict { SOUND, NOTE, WRONG };

struct doctor {
    struct bytes out;
    struct json_writer *json; /* inside the array of findings, or NULL: lines for people */
    unsigned wrong, notes;
};

struct doctor_options {
    struct set_options set;
    struct store_options store;
    bool gc, json;
};

/* One line: what, where, and the cure (NULL where there is nothing to do). */
__attribute__((format(printf, 5, 6))) void finding(struct doctor *d, enum verdict v,
                                                   const char *what, const char *cure,
                                                   const char *where_fmt, ...);

void doctor_machine(struct doctor *d);
void doctor_mounts(struct doctor *d);
/* Cache folders below `cache_dir` (NULL: the usual one) that no mount uses (doctor-gc.c). */
void doctor_unused(struct doctor *d, const char *cache_dir);
/* whole: its store is asked, and its names are looked at, too. */
void doctor_mount(struct doctor *d, const struct control_mount *m, bool whole);
void doctor_set(struct doctor *d, const char *set, const struct doctor_options *o);

/* What asking a store found out: what does not work ("": all does), why, the first key ("": there
 * is none, as `may_be_empty` has it well). */
void doctor_probed(struct doctor *d, const char *uri, const char *what, const char *why,
                   const char *key, bool may_be_empty);

/* What the sources have and the version in `dir`/catalog can't. */
void doctor_names(struct doctor *d, const char *dir);

#endif

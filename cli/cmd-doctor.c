/* doctor: finds what is wrong and names the cure. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "doctor-internal.h"

static const struct conf_row rows[] = {
    {"gc", CONF_FLAG, AT(doctor_options, gc),
     .help = "Name the cache folders below --cache-dir that no mount uses, with their sizes"},
    SET_ROWS(doctor_options, set),
    STORE_ROWS(doctor_options, store),
    JSON_ROW(doctor_options, json),
};

static const char *const verdict_names[] = {"ok", "note", "wrong"};

void finding(struct doctor *d, enum verdict v, const char *what, const char *cure,
             const char *where_fmt, ...)
{
    char where[1200];
    va_list ap;
    va_start(ap, where_fmt);
    vsnprintf(where, sizeof where, where_fmt, ap);
    va_end(ap);
    d->wrong += v == WRONG;
    d->notes += v == NOTE;
    if (d->json) {
        jw_object(d->json, NULL);
        jw_str(d->json, "verdict", verdict_names[v]);
        jw_str(d->json, "what", what);
        jw_str(d->json, "where", where);
        jw_str(d->json, "cure", cure ? cure : "");
        jw_end(d->json);
        return;
    }
    add_one_line(&d->out, "%-6s %s: %s%s%s%s", verdict_names[v], what, where, cure ? " (" : "",
                 cure ? cure : "", cure ? ")" : "");
}

/* Is it a mount of the register? A dead one is, too. */
static bool is_mount(const char *arg, struct control_mount *ret)
{
    cleanup_free char *path = NULL;
    return !strstr(arg, "://") && mount_path(arg, &path, NULL) == 0 &&
           control_find(path, ret, NULL) == 0;
}

/* What has no effect without a SET that is not mounted. */
static int check(const struct conf *conf, const struct doctor_options *o,
                 const struct control_mount *m, struct err *err)
{
    static const char *const plain[] = {"gc", "json", NULL};
    static const char *const with_gc[] = {"gc", "json", "cache-dir", NULL};
    const char *const *names = o->gc ? with_gc : plain;
    return m->mountpoint ? refuse_of_mount(conf, names, m, err)
                         : refuse_besides(conf, names, "goes with a SET (name one)", err);
}

static void look(struct doctor *d, const char *arg, const struct control_mount *m,
                 const struct doctor_options *o)
{
    doctor_machine(d);
    if (o->gc)
        doctor_unused(d, o->set.cache_dir);
    if (!arg)
        doctor_mounts(d);
    else if (m->mountpoint)
        doctor_mount(d, m, /* whole= */ true);
    else
        doctor_set(d, arg, o);
}

static int run(const struct conf *conf, const void *options, struct err *err)
{
    const struct doctor_options *o = options;
    const char *arg = conf_arg(conf, 0);
    cleanup_mount struct control_mount m = {0};
    struct doctor d = {0};
    struct json_writer w;
    if ((!arg || is_mount(arg, &m)) && check(conf, o, &m, err))
        return -1;
    if (o->json) {
        jw_init(&w, &d.out);
        jw_object(&w, NULL);
        jw_array(&w, "findings");
        d.json = &w;
    }
    look(&d, arg, &m, o);
    if (o->json) {
        jw_end(&w);
        jw_uint(&w, "wrong", d.wrong);
        jw_end(&w);
        bytes_add_char(&d.out, '\n');
    } else if (!d.wrong) {
        bytes_add_str(&d.out, "nothing wrong was found\n");
    }
    int result = print_out(&d.out, err);
    bytes_release(&d.out);
    return result ? result : d.wrong ? 1 : 0;
}

const struct command cmd_doctor = {
    .name = "doctor",
    .args = "[SET|MOUNT]",
    .summary = "find what is wrong, and name the cure",
    .about =
        "Looks at this machine (the FUSE device, fusermount3, the kernel) and at the mounts "
        "registered here: dead and degraded ones, those that run another program than the "
        "installed one, stale registrations, tiers, what could not be stored, objects that changed "
        "at the source, the other machines that they ask. Of a SET or MOUNT that is given it asks "
        "the store, too (can it be listed and read, are the clocks "
        "together), and looks at its cache folder (permission, space) and for names that no file "
        "system can hold. With --gc it names what sets that are not mounted any more have left "
        "below --cache-dir; nothing is removed. One line a finding; exit code 1 if something is "
        "wrong.",
    .max_args = 1,
    .rows = rows,
    .n_rows = COUNT(rows),
    .options_size = sizeof(struct doctor_options),
    .run = run,
};

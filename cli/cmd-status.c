/* status: every mount on this machine in a line, or one in full. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli-internal.h"
#include "mem.h"
#include "mountinfo.h"
#include "program.h"

struct status_options {
    bool json;
};

static const struct conf_row rows[] = {JSON_ROW(status_options, json)};

/* --- a mount whose process is dead ------------------------------------------------------------ */

static void write_zeros(struct json_writer *w, const char *object, const char *const *keys,
                        size_t n)
{
    jw_object(w, object);
    for (size_t i = 0; i < n; i++)
        jw_int(w, keys[i], 0);
}

/* Scripts find every field of a live one. */
void status_zeros(struct json_writer *w)
{
    static const char *const set[] = {"samples", "bytes", "folders"};
    static const char *const cache[] = {"samples", "bytes"};
    static const char *const reads[] = {
        "total",  "bytes", "mem", "disk", "peer", "store", "pushed", "errors", "corrupt_repaired",
        "p50_us", "p99_us"};
    static const char *const fetch[] = {"requests", "bytes",     "retries",
                                        "hedges",   "in_flight", "in_flight_max"};
    static const char *const memory[] = {"resident", "limit"};
    static const char *const warmup[] = {"percent", "samples_done", "samples_total", "failed",
                                         "eta_s"};
    write_zeros(w, "set", set, COUNT(set));
    jw_end(w);
    write_zeros(w, "cache", cache, COUNT(cache));
    jw_array(w, "tiers");
    jw_end(w);
    jw_end(w);
    write_zeros(w, "reads", reads, COUNT(reads));
    jw_end(w);
    write_zeros(w, "fetch", fetch, COUNT(fetch));
    jw_end(w);
    write_zeros(w, "memory", memory, COUNT(memory));
    jw_end(w);
    write_zeros(w, "warmup", warmup, COUNT(warmup));
    jw_str(w, "state", "idle");
    jw_end(w);
    jw_raw(w, "partition", "null");
}

/* Nobody answers: dead, or recovering when a keeper is there. */
static void silent_json(const struct control_mount *m, struct bytes *text)
{
    struct json_writer w;
    jw_init(&w, text);
    jw_object(&w, NULL);
    jw_str(&w, "mountpoint", m->mountpoint);
    jw_str(&w, "uri", m->uri);
    jw_str(&w, "version", "");
    jw_str(&w, "state", m->alive ? "recovering" : "dead");
    jw_int(&w, "pid", m->recovering ? 0 : m->pid);
    jw_int(&w, "keeper_pid", m->keeper_pid);
    jw_int(&w, "restarts", 0);
    jw_int(&w, "uptime_s", 0);
    jw_str(&w, "mode", "");
    jw_str(&w, "profile", "");
    status_zeros(&w);
    jw_end(&w);
    bytes_add_char(text, '\n');
}

/* --- for people ------------------------------------------------------------------------------- */

static void add_line(struct bytes *out, const struct control_mount *m, const struct json *s)
{
    char bytes[32];
    struct json set = json_get(s, "set"), cache = json_get(s, "cache");
    conf_format_size(json_uint_at(&set, "bytes"), bytes);
    add_one_line(out, "%-28s %-10s %10" PRIu64 " %10s %7.1f %8d  %s", m->mountpoint,
                 json_str_at(s, "state"), json_uint_at(&set, "samples"), bytes,
                 percent_of(json_num_at(&cache, "samples"), json_num_at(&set, "samples")), m->pid,
                 m->uri);
}

/* --- asking ----------------------------------------------------------------------------------- */

/* One mount, in one of the three forms. */
static int show(const struct control_mount *m, bool json, bool full, struct bytes *out,
                struct err *err)
{
    cleanup_json struct json_doc *answer = NULL;
    if (ask_status(m, &answer, err))
        return err_wrap(err, "%s", m->mountpoint);
    struct json root = json_root(answer), status = json_get(&root, "status");
    if (json) {
        json_text(&status, out);
        bytes_add_char(out, '\n');
    } else if (full) {
        status_text(out, &status);
    } else {
        add_line(out, m, &status);
    }
    return 0;
}

static void show_silent(const struct control_mount *m, bool json, struct bytes *out)
{
    if (json)
        silent_json(m, out);
    else
        add_one_line(out, "%-28s %-10s %10s %10s %7s %8d  %s (%s)", m->mountpoint,
                     m->alive ? "recovering" : "dead", "-", "-", "-",
                     m->recovering ? m->keeper_pid : m->pid, m->uri,
                     m->recovering ? "its daemon is being started"
                     : m->alive    ? "its daemon does not answer: see sampan doctor"
                                   : "sampan umount cleans up");
}

/* --- mounts of others ------------------------------------------------------------------------- */

struct others {
    struct bytes known; /* (major, minor) of those in the register, then of those named */
    struct bytes names;
};

static bool seen_before(struct others *o, const struct mount_row *row)
{
    const unsigned device[2] = {row->major, row->minor};
    for (size_t at = 0; at < o->known.len; at += sizeof device)
        if (memcmp(o->known.data + at, device, sizeof device) == 0)
            return true;
    bytes_add(&o->known, device, sizeof device);
    return false;
}

static void name_other(void *arg, const struct mount_row *row)
{
    struct others *o = arg;
    if (strcmp(row->type, "fuse.sampan") == 0 && !seen_before(o, row))
        bytes_addf(&o->names, "%s%s (user %u)", o->names.len ? ", " : "", row->mountpoint,
                   row->user);
}

/* What another user mounted is in that user's register, which is not read: it is named. */
static void tell_others(const struct control_mount *mounts, size_t n)
{
    struct others o = {0};
    cleanup_free struct mount_row *row = xmalloc(sizeof *row);
    for (size_t i = 0; i < n; i++)
        if (mount_find(mounts[i].mountpoint, row, NULL) == 0)
            seen_before(&o, row);
    if (mount_each(name_other, &o, NULL) == 0 && o.names.len) {
        one_line(o.names.data);
        fprintf(stderr,
                "sampan status: mounted, too, but in another register: %s (ask as that user, or "
                "read .sampan/status.json there)\n",
                o.names.data);
    }
    bytes_release(&o.known);
    bytes_release(&o.names);
}

static int show_all(bool json, struct err *err)
{
    struct control_mount *mounts;
    size_t n;
    if (control_mounts(&mounts, &n, err))
        return -1;
    cleanup_bytes struct bytes out = {0};
    bytes_add(&out, "", 0);
    if (!json && n)
        bytes_addf(&out, "%-28s %-10s %10s %10s %7s %8s  %s\n", "MOUNTPOINT", "STATE", "SAMPLES",
                   "BYTES", "CACHED%", "PID", "URI");
    for (size_t i = 0; i < n; i++) {
        ask_wait_recovered(&mounts[i]);
        if (!mounts[i].alive || mounts[i].recovering || show(&mounts[i], json, false, &out, NULL))
            show_silent(&mounts[i], json, &out);
    }
    tell_others(mounts, n);
    control_mounts_free(mounts, n);
    if (!json && !n)
        bytes_add_str(&out, "nothing is mounted by this user\n");
    return print_out(&out, err);
}

static int run(const struct conf *conf, const void *options, struct err *err)
{
    const struct status_options *o = options;
    if (!conf_n_args(conf))
        return show_all(o->json, err);
    cleanup_mount struct control_mount m = {0};
    cleanup_bytes struct bytes out = {0};
    if (mount_of(conf_arg(conf, 0), &m, NULL, err))
        return -1;
    ask_wait_recovered(&m);
    if (m.recovering)
        show_silent(&m, o->json, &out);
    else if (show(&m, o->json, true, &out, err))
        return -1;
    return print_out(&out, err);
}

const struct command cmd_status = {
    .name = "status",
    .args = "[MOUNT]",
    .summary = "show every mount on this machine, or one in full",
    .about =
        "Without MOUNT one line a mount; with --json one object a line. The same object stands in "
        ".sampan/status.json of each mount. A mount whose process has died is \"recovering\" while "
        "its "
        "keeper starts the next one, \"degraded\" if none of them lives (why and since when are "
        "said), and \"dead\" without a keeper. One that does not answer within 20 s is told so. "
        "Mounts of other users are named on the standard "
        "error: "
        "they are asked for as that user.",
    .max_args = 1,
    .rows = rows,
    .n_rows = COUNT(rows),
    .options_size = sizeof(struct status_options),
    .run = run,
};

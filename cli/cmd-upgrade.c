/* upgrade: another program takes a mount over; its readers notice nothing. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli-internal.h"
#include "clock.h"
#include "mem.h"
#include "program.h"

#define LOOK_NS (5 * 1000 * 1000)

struct upgrade_options {
    const char *program;
    uint64_t timeout;
    bool all, json;
};

static const struct conf_row rows[] = {
    {"all", CONF_FLAG, AT(upgrade_options, all), .help = "Every mount on this machine"},
    {"program", CONF_STRING, AT(upgrade_options, program), .arg = "FILE",
     .help = "The sampan to run from now on; this one, if not given"},
    {"timeout", CONF_DURATION, AT(upgrade_options, timeout), .arg = "DUR", .dflt = "60s",
     .help = "Wait this long for the new program to serve"},
    JSON_ROW(upgrade_options, json),
};

/* What `ping` tells of who serves. */
struct server {
    uint64_t pid, keeper_pid, upgrades;
    char version[64], outcome[16], why[600];
};

static int look(const struct control_mount *m, unsigned patience_s, struct server *ret,
                struct err *err)
{
    cleanup_json struct json_doc *answer = NULL;
    if (ask_ping(m, patience_s, &answer, err))
        return -1;
    struct json root = json_root(answer);
    *ret = (struct server){.pid = json_uint_at(&root, "pid"),
                           .keeper_pid = json_uint_at(&root, "keeper_pid"),
                           .upgrades = json_uint_at(&root, "upgrades")};
    snprintf(ret->version, sizeof ret->version, "%s", json_str_at(&root, "version"));
    snprintf(ret->outcome, sizeof ret->outcome, "%s", json_str_at(&root, "upgrade"));
    snprintf(ret->why, sizeof ret->why, "%s", json_str_at(&root, "upgrade_why"));
    return 0;
}

/* Its answer may be cut off: who makes room is gone soon. What counts is what comes after. */
static int ask_for_room(const struct control_mount *m, const char *program, struct err *err)
{
    cleanup_bytes struct bytes request = {0};
    cleanup_json struct json_doc *answer = NULL;
    struct json_writer w;
    ask_begin(&w, &request, "upgrade");
    jw_str(&w, "program", program);
    jw_end(&w);
    return control_call(m->socket, &request, NULL, NULL, &answer, NULL, err);
}

static int wait_for_outcome(const struct control_mount *m, const struct server *before,
                            const struct err *refused, uint64_t deadline, struct server *now,
                            struct err *err)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    for (uint64_t at; (at = clock_mono_ns()) < deadline; nanosleep(&pause, NULL)) {
        struct err silent = {0};
        if (look(m, (unsigned)((deadline - at) / NS_PER_S) + 1, now, &silent)) {
            if (clock_mono_ns() >= deadline)
                break;
            if (err)
                *err = silent;
            return -1;
        }
        if (now->upgrades == before->upgrades && refused->class) {
            if (err)
                *err = *refused; /* it was not cut off: it was refused */
            return -1;
        }
        if (now->upgrades > before->upgrades && strcmp(now->outcome, "starting") != 0)
            return 0;
    }
    return err_set(err, ERR_FAILED, "%s: the new program does not serve yet", m->mountpoint);
}

static int upgrade(const struct control_mount *m, const char *program,
                   const struct upgrade_options *o, struct bytes *out, struct err *err)
{
    struct server before, now;
    struct err refused = {0};
    if (look(m, ASK_PATIENCE_S, &before, err))
        return err_wrap(err, "%s", m->mountpoint);
    uint64_t began = clock_mono_ns();
    ask_for_room(m, program, &refused);
    if (wait_for_outcome(m, &before, &refused, began + o->timeout, &now, err))
        return -1;
    double ms = (double)(clock_mono_ns() - began) / 1e6;
    if (strcmp(now.outcome, "failed") == 0)
        return err_set(err, ERR_FAILED,
                       "%s: %s did not get ready: %s (%s serves again, pid %" PRIu64 ")",
                       m->mountpoint, program, now.why, now.version, now.pid);
    if (!o->json) {
        add_one_line(out,
                     "%s: %s -> %s, pid %" PRIu64 " -> %" PRIu64 ", keeper %" PRIu64 " -> %" PRIu64
                     ", %.0f ms",
                     m->mountpoint, before.version, now.version, before.pid, now.pid,
                     before.keeper_pid, now.keeper_pid, ms);
        return 0;
    }
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_str(&w, "mountpoint", m->mountpoint);
    jw_str(&w, "from", before.version);
    jw_str(&w, "to", now.version);
    jw_uint(&w, "pid", now.pid);
    jw_uint(&w, "keeper_pid", now.keeper_pid);
    jw_num(&w, "ms", ms);
    jw_end(&w);
    bytes_add_char(out, '\n');
    return 0;
}

/* Each for itself: one that fails does not keep the others from going on. */
static int upgrade_all(const char *program, const struct upgrade_options *o, struct bytes *out,
                       struct err *err)
{
    struct control_mount *mounts;
    size_t n, failed = 0;
    if (control_mounts(&mounts, &n, err))
        return -1;
    for (size_t i = 0; i < n; i++) {
        struct err why = {0};
        if (!mounts[i].alive || !upgrade(&mounts[i], program, o, out, &why))
            continue;
        failed++;
        one_line(why.msg);
        fprintf(stderr, "sampan upgrade: %s\n", why.msg);
    }
    control_mounts_free(mounts, n);
    return failed ? 1 : 0;
}

static int program_of(const struct upgrade_options *o, char ret[PATH_MAX], struct err *err)
{
    const char *path = o->program ? o->program : "/proc/self/exe";
    if (!realpath(path, ret))
        return err_sys(err, errno, "the program %s", path);
    struct stat st;
    if (stat(ret, &st) || access(ret, X_OK))
        return err_sys(err, errno, "the program %s", ret);
    return S_ISREG(st.st_mode) ? 0 : err_set(err, ERR_USAGE, "the program %s: not a file", ret);
}

static int run(const struct conf *conf, const void *options, struct err *err)
{
    const struct upgrade_options *o = options;
    cleanup_bytes struct bytes out = {0};
    char program[PATH_MAX];
    bytes_add(&out, "", 0);
    if (o->all == (conf_n_args(conf) == 1))
        return err_set(err, ERR_USAGE, "want one of: a MOUNT, --all");
    if (program_of(o, program, err))
        return -1;
    int result;
    if (o->all) {
        result = upgrade_all(program, o, &out, err);
    } else {
        cleanup_mount struct control_mount m = {0};
        result =
            mount_of(conf_arg(conf, 0), &m, NULL, err) ? -1 : upgrade(&m, program, o, &out, err);
    }
    if (print_out(&out, result < 0 ? NULL : err))
        return -1;
    return result;
}

const struct command cmd_upgrade = {
    .name = "upgrade",
    .args = "[MOUNT]",
    .summary = "let another program take a mount over while it is read",
    .about =
        "The mount's process flushes. The keeper that lies beside the new program (or in "
        "../libexec/sampan) takes the mount over from the one that runs, which ends when the new "
        "one "
        "holds all; without such a file, and under --foreground, the keeper stays. Then the "
        "process tells the keeper which program comes next, and ends; the "
        "keeper starts that program on the same mount. Readers wait for some milliseconds and see "
        "no error. Returns when the new program serves. If it does not get ready, the old program "
        "is started again (also if its file was replaced meanwhile), the exit code is 1 and the "
        "message says why; if the keeper does not, all stays as it was.\n\n"
        "A mount that is degraded (see sampan status) is tried again this way, with the same "
        "program or another one. A mount without a keeper cannot be taken over.",
    .min_args = 0,
    .max_args = 1,
    .rows = rows,
    .n_rows = COUNT(rows),
    .options_size = sizeof(struct upgrade_options),
    .run = run,
};

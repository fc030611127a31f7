/* umount: what is pending is flushed, the mount goes, its process ends, its registration goes. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "cli-internal.h"
#include "clock.h"
#include "device.h"
#include "mem.h"
#include "pending-internal.h"
#include "program.h"

struct umount_options {
    bool lazy;
    uint64_t timeout;
};

static const struct conf_row rows[] = {
    {"lazy", CONF_FLAG, AT(umount_options, lazy),
     .help = "Unmount although it is in use: it goes from the tree now, its process when the last "
             "user is gone"},
    {"timeout", CONF_DURATION, AT(umount_options, timeout), .arg = "DUR", .dflt = "60s",
     .help = "Wait this long for the mount's process to end"},
};

/* Samples that are only read leave nothing to flush that would be lost; what was written may be,
 * which the user decides. */
static bool only_reads(const struct control_mount *m)
{
    return access(m->mountpoint, W_OK) && errno == EROFS;
}

/* Its cache folder was removed: its process serves on, but nobody can ask it any more. */
static bool cannot_be_asked(const struct control_mount *m)
{
    return access(m->socket, F_OK) && errno == ENOENT;
}

/* Then it is the cache's disk that fails, not the mount's process. */
static bool answers(const struct control_mount *m)
{
    cleanup_json struct json_doc *answer = NULL;
    return ask_status(m, &answer, NULL) == 0;
}

static int flush(const struct control_mount *m, struct err *err)
{
    struct err why = {0};
    bool unasked = cannot_be_asked(m) && only_reads(m);
    if (unasked || pending_flush(m, "umount", /* torn= */ false, &why) == 0)
        return 0;
    if (only_reads(m) && why.class == ERR_LIMIT) /* it may start no thread to answer */
        return 0;
    if (only_reads(m) && answers(m)) {
        one_line(why.msg);
        fprintf(stderr, "sampan umount: %s: what is cached there may have to be fetched again\n",
                why.msg);
        return 0;
    }
    if (err)
        *err = why;
    return err_wrap(err, "flush before unmounting %s (--lazy unmounts anyway)", m->mountpoint);
}

/* Nothing is lost by it, but who asked should know. */
static void tell_pending(const struct control_mount *m, const char *then)
{
    cleanup_bytes struct bytes text = {0};
    if (pending_of(m, &text))
        fprintf(stderr,
                "sampan umount: %s: it stays in the cache folder, and is %s when %s is mounted "
                "again\n",
                text.data, then, m->uri);
}

/* -1: that process is gone already, or the kernel is too old: then there is nothing to wait on. */
static int process_handle(int pid)
{
    return pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
}

#define EXPLAIN_AFTER_MS 2000

/* Has the process ended? Waits so long for it. */
static bool has_ended(int handle, uint64_t ms)
{
    struct pollfd p = {.fd = handle, .events = POLLIN};
    int n;
    do
        n = poll(&p, 1, ms > INT32_MAX ? -1 : (int)ms);
    while (n < 0 && errno == EINTR);
    return n > 0;
}

/* A copy of the mount in another mount namespace, or a bind of it, keeps its process. */
static int wait_for_end(int handle, int pid, dev_t dev, uint64_t timeout_ns, struct err *err)
{
    uint64_t ms = timeout_ns / NS_PER_MS, at_once = ms < EXPLAIN_AFTER_MS ? ms : EXPLAIN_AFTER_MS;
    cleanup_bytes struct bytes where = {0};
    if (has_ended(handle, at_once))
        return 0;
    if (ms > at_once && mount_elsewhere(dev, &where))
        fprintf(stderr, "sampan umount: waiting for its end: it is still mounted %s\n", where.data);
    if (has_ended(handle, ms - at_once))
        return 0;
    bytes_clear(&where);
    if (mount_elsewhere(dev, &where))
        return err_set(
            err, ERR_FAILED,
            "unmounted, but process %d serves it on: still mounted %s (unmount it there, "
            "or with nsenter --target PID --mount umount)",
            pid, where.data);
    return err_set(
        err, ERR_FAILED,
        "unmounted, but process %d has not ended yet (it may still write its index; look "
        "at its log)",
        pid);
}

/* The file system that is mounted there; 0: none is. */
static dev_t device_of(const char *path)
{
    cleanup_free struct mount_row *row = xmalloc(sizeof *row);
    return mount_find(path, row, NULL) ? 0 : makedev(row->major, row->minor);
}

/* A registration without a mount: the process is told to end, or its trace is removed. */
static int clean_up(const struct control_mount *m, struct err *err)
{
    int pid = m->recovering ? m->keeper_pid : m->pid;
    if (m->alive && m->foreign)
        return err_set(err, ERR_FAILED,
                       "%s: its processes are outside of this container (run sampan umount there)",
                       m->mountpoint);
    if (m->alive && kill(pid, SIGTERM) && errno != ESRCH)
        return err_sys(err, errno, "end the process %d of %s", pid, m->mountpoint);
    return 0;
}

static int end_mount(const char *path, const struct control_mount *m,
                     const struct umount_options *o, struct err *err)
{
    bool known = m->mountpoint != NULL;
    /* A keeper ends after its last life, whichever that is by then. */
    int last = m->keeper_pid ? m->keeper_pid : m->pid;
    int handle = known && m->alive ? process_handle(last) : -1;
    dev_t dev = device_of(path);
    int result = 0;
    if (known && !m->mounted) {
        result = clean_up(m, err);
    } else {
        if (known && m->alive)
            result = o->lazy ? 0 : flush(m, err);
        else if (known && control_is_abandoned(m))
            mount_make_dead(path);
        if (known && m->alive && !result)
            tell_pending(m, o->lazy ? "stored" : "there");
        if (!result)
            result = mount_end(path, o->lazy, err);
    }
    if (!result && handle >= 0 && !o->lazy)
        result = wait_for_end(handle, last, dev, o->timeout, err);
    if (handle >= 0)
        close(handle);
    if (!result) /* it may not have come to clean up after itself */
        control_forget(path);
    return result;
}

static int run(const struct conf *conf, const void *options, struct err *err)
{
    const struct umount_options *o = options;
    cleanup_free char *path = NULL;
    if (mount_path(conf_arg(conf, 0), &path, err))
        return -1;
    if (chdir("/") < 0) /* whoever works in the mount, it should not be us */
        return err_sys(err, errno, "leave this folder");
    struct control_mount m = {0};
    if (control_find(path, &m, NULL) == 0 && strcmp(m.mountpoint, path) != 0) {
        cleanup_free char *at = shell_word(m.mountpoint);
        err_set(err, ERR_USAGE,
                "%s is not a mount point (sampan umount %s ends the mount it lies in)", path, at);
        control_mount_release(&m);
        return -1;
    }
    int result = end_mount(path, &m, o, err);
    control_mount_release(&m);
    return result;
}

const struct command cmd_umount = {
    .name = "umount",
    .args = "MOUNTPOINT",
    .summary = "end a mount",
    .about =
        "Asks the mount's process to write what is pending, unmounts, and returns when that "
        "process has ended. What can't be stored is a refusal; samples of a mount that only reads "
        "may have to be fetched again. A mount in use is refused with the list of its users. A "
        "mount whose "
        "process is dead is removed all the same; one whose process hangs, and has nobody to "
        "replace "
        "it, with --lazy.",
    .min_args = 1,
    .max_args = 1,
    .rows = rows,
    .n_rows = COUNT(rows),
    .options_size = sizeof(struct umount_options),
    .run = run,
};

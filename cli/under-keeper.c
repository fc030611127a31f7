/* What of a mount's life concerns its keeper. Without one, most of this does nothing. */
#define LOG_MODULE "mount"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "mem.h"
#include "serve-internal.h"
#include "suspects.h"

#define LAST_WORDS_MAX 1000

bool under_keeper_refuses(const struct mount *m)
{
    return m->conf->keeper && keeper_refuses(m->conf->keeper);
}

int under_keeper_register(struct mount *m, struct err *err)
{
    struct keeper *k = m->conf->keeper;
    if (control_register(m->conf->mountpoint, m->conf->set, m->socket, k ? keeper_pid(k) : 0, err))
        return -1;
    m->registered = true;
    return 0;
}

/* --- the keeper's own life -------------------------------------------------------------------- */

static void on_renewed(void *arg)
{
    struct mount *m = arg;
    struct err err = {0};
    log_warn(m->log.log, "the keeper was killed: a new one watches pid=%d",
             keeper_pid(m->conf->keeper));
    if (under_keeper_register(m, &err))
        log_warn(m->log.log, "%s", err.msg);
}

static void on_lost(void *arg, const struct err *why)
{
    struct mount *m = arg;
    log_warn(m->log.log, "no keeper any more: %s", why->msg);
    if (m->conf->was_ready) {
        if (under_keeper_register(m, NULL))
            log_warn(m->log.log, "the register still names a keeper");
        return;
    }
    serve_break_off(m, why);
}

int under_keeper_watch(struct mount *m, struct err *err)
{
    struct keeper_conf conf = {
        .watch_desks = m->served == &serves_samples, /* whose workers park what must wait */
        .renewed = on_renewed,
        .lost = on_lost,
        .arg = m,
        .argv = m->conf->argv,
    };
    return m->conf->keeper ? keeper_watch(m->conf->keeper, &conf, err) : 0;
}

int under_keeper_hold(struct mount *m, struct err *err)
{
    struct keeper *k = m->conf->keeper;
    return keeper_held(k)->dev >= 0
               ? 0
               : keeper_hold(k, m->served->device(m), control_server_listener(m->control), err);
}

int under_keeper_copy(const struct mount *m, bool device)
{
    if (!m->conf->keeper)
        return -1;
    const struct keeper_fds *held = keeper_held(m->conf->keeper);
    int fd = device ? held->dev : held->listen;
    return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

/* --- asked over the control socket ------------------------------------------------------------ */

static const char *outcome_name(uint32_t outcome)
{
    static const char *const names[] = {[UPGRADE_NONE] = "none",
                                        [UPGRADE_STARTING] = "starting",
                                        [UPGRADE_DONE] = "done",
                                        [UPGRADE_FAILED] = "failed"};
    return outcome < COUNT(names) ? names[outcome] : "none";
}

static const char *last_words(struct keeper_state *s)
{
    return keeper_text_get(keeper_text(s, "last words", LAST_WORDS_MAX));
}

/* What the keeper saw, and what that life itself had to say. */
static void write_why(struct json_writer *w, const char *key, struct keeper_state *s,
                      const char *seen)
{
    const char *words = last_words(s);
    cleanup_free char *text = xasprintf("%.255s%s%s", seen, *words ? ": " : "", words);
    jw_str(w, key, text);
}

void under_keeper_about(void *mount, struct json_writer *w)
{
    struct mount *m = mount;
    struct keeper_state *s = keeper_state(m->conf->keeper);
    jw_int(w, "keeper_pid", s ? keeper_pid(m->conf->keeper) : 0);
    if (!s)
        return;
    jw_uint(w, "life", s->keeper.life);
    jw_bool(w, "degraded", under_keeper_refuses(m));
    jw_uint(w, "upgrades", s->keeper.upgrades);
    jw_str(w, "upgrade", outcome_name(s->keeper.upgrade_outcome));
    if (s->keeper.upgrade_outcome == UPGRADE_FAILED)
        write_why(w, "upgrade_why", s, s->keeper.upgrade_why);
}

/*
 * The keeper that came with the program takes over first, while this process serves: so the next
 * life is its child. One in the foreground stays: whoever started it waits for its end.
 */
static int renew_keeper(struct mount *m, const char *program, struct err *err)
{
    struct keeper *k = m->conf->keeper;
    cleanup_free char *path = NULL;
    struct err none = {0};
    if (m->conf->options->foreground || keeper_beside(program, &path, &none)) {
        log_info(m->log.log, "the keeper stays: %s",
                 none.msg[0] ? none.msg : "it is in the foreground");
        return 0;
    }
    if (keeper_replace(k, path, err))
        return -1;
    log_info(m->log.log, "a new keeper took over pid=%d program=%s", keeper_pid(k), path);
    return under_keeper_register(m, err);
}

int under_keeper_upgrade(void *mount, const char *program, struct err *err)
{
    struct mount *m = mount;
    if (!m->conf->keeper)
        return err_set(err, ERR_USAGE,
                       "%s runs without a keeper: unmount it and mount it again instead",
                       m->conf->mountpoint);
    if (!under_keeper_refuses(m) && m->served->flush(m, err))
        return err_wrap(err, "flush before the upgrade");
    if (renew_keeper(m, program, err))
        return err_wrap(err, "%s is as it was: the new keeper", m->conf->mountpoint);
    keeper_text_set(keeper_text(keeper_state(m->conf->keeper), "last words", LAST_WORDS_MAX), "",
                    NULL);
    if (keeper_next(m->conf->keeper, program, err))
        return -1;
    log_info(m->log.log, "making room for %s", program);
    {
        ACQUIRE(&m->lock);
        m->leave = true;
    }
    serve_end_now(m);
    return 0;
}

int under_keeper_descriptor(void *mount, const char *which, int *ret_fd, struct err *err)
{
    struct mount *m = mount;
    if (!m->conf->keeper)
        return err_set(err, ERR_USAGE, "%s runs without a keeper", m->conf->mountpoint);
    const struct keeper_fds *held = keeper_held(m->conf->keeper);
    if (strcmp(which, "state") == 0)
        return keeper_state_reopen(held->state, ret_fd, err); /* our lock is not handed out */
    const struct {
        const char *name;
        int fd;
    } all[] = {{"dev", held->dev}, {"listen", held->listen}};
    for (size_t i = 0; i < COUNT(all); i++) {
        if (strcmp(all[i].name, which) != 0)
            continue;
        *ret_fd = fcntl(all[i].fd, F_DUPFD_CLOEXEC, 3);
        return *ret_fd < 0 ? err_sys(err, errno, "descriptor %s", which) : 0;
    }
    return err_set(err, ERR_USAGE, "which: \"%s\": want dev, state or listen", which);
}

/* --- status ----------------------------------------------------------------------------------- */

static void path_of(void *mount, uint64_t id, struct bytes *ret)
{
    struct mount *m = mount;
    if (!under_keeper_refuses(m))
        m->served->path_of(m, id, ret);
}

void under_keeper_status(struct mount *m, struct json_writer *w)
{
    struct keeper_state *s = keeper_state(m->conf->keeper);
    jw_int(w, "keeper_pid", s ? keeper_pid(m->conf->keeper) : 0);
    jw_int(w, "restarts", s ? s->keeper.life - 1 : 0);
    if (!s)
        return;
    if (s->keeper.life > 1)
        jw_str(w, "last_end", s->keeper.why);
    suspects_status(&s->keeper, path_of, m, w);
}

void under_keeper_refused_status(struct mount *m, struct json_writer *w)
{
    struct keeper_state *s = keeper_state(m->conf->keeper);
    jw_str(w, "version", "");
    jw_str(w, "state", "degraded");
    write_why(w, "why", s, s->keeper.why);
    jw_int(w, "since", s->keeper.since);
    jw_str(w, "mode", "refuse");
    status_zeros(w);
}

/* --- ends that are not the mount's ------------------------------------------------------------ */

/* No destructor runs: our own threads may wait for answers that only the next process gives, and
 * all that must be on the disk is there at any moment. */
void under_keeper_leave(struct mount *m)
{
    m->served->leave(m);
    _exit(0);
}

void under_keeper_fail(struct mount *m, const struct err *why)
{
    log_error(m->log.log, "%s", why->msg);
    keeper_text_set(keeper_text(keeper_state(m->conf->keeper), "last words", LAST_WORDS_MAX),
                    why->msg, NULL);
    _exit(err_exit_code(why));
}

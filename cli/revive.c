/*
 * revive: a keeper, and soon a daemon, for a mount whose processes have all been killed while this
 * program's caller held its device, its state and its listener (the control operation
 * "descriptors"). For other programs, not for people: no page of the manual shows it.
 *
 *   sampan revive --dev N --state N --listen N     numbers of open descriptors
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "keeper.h"
#include "mem.h"
#include "serve-internal.h"

#define LAST_NS (30 * NS_PER_S)
#define LOOK_US 20000

struct revive_options {
    int64_t dev, state, listen;
};

static const struct conf_row rows[] = {
    {"dev", CONF_INT, AT(revive_options, dev), .arg = "N", .dflt = "-1", .min = -1, .max = 1 << 20,
     .help = "Descriptor of the device"},
    {"state", CONF_INT, AT(revive_options, state), .arg = "N", .dflt = "-1", .min = -1,
     .max = 1 << 20, .help = "Descriptor of the state"},
    {"listen", CONF_INT, AT(revive_options, listen), .arg = "N", .dflt = "-1", .min = -1,
     .max = 1 << 20, .help = "Descriptor of the control socket's listener"},
};

/* The words that `ps` shows, from what the mount was asked for once. */
static int words_of(struct keeper_state *s, char *ret[5], struct err *err)
{
    struct kept kept;
    static char name[] = "sampan", verb[] = "mount";
    int result = kept_load(&kept, s, err);
    ret[0] = name;
    ret[1] = verb;
    if (!result) {
        ret[2] = xstrdup(conf_arg(kept.conf, 0));
        ret[3] = xstrdup(conf_arg(kept.conf, 1));
    }
    kept_release(&kept);
    return result;
}

static bool is_served(const char *mountpoint)
{
    cleanup_mount struct control_mount m = {0};
    return control_find(mountpoint, &m, NULL) == 0 && strcmp(m.mountpoint, mountpoint) == 0 &&
           m.alive;
}

/* Its last process may have started another one in its last moment: that one is waited for, until
 * it serves (1) or is gone as well (0). */
static int wait_for_the_last(int state, const char *mountpoint, struct err *err)
{
    uint64_t end = clock_mono_ns() + LAST_NS;
    while (keeper_state_claim(state, err)) {
        if (err->class != ERR_LIMIT || clock_mono_ns() >= end)
            return -1;
        if (is_served(mountpoint))
            return 1;
        err_clear(err);
        usleep(LOOK_US);
    }
    return 0;
}

static int become_keeper(const struct revive_options *o, int report, struct err *err)
{
    cleanup_close int own = -1;
    cleanup_free char *program = NULL;
    struct keeper_state *state;
    char *argv[5] = {NULL};
    if (keeper_find(&program, err) || keeper_state_reopen((int)o->state, &own, err) ||
        keeper_state_map(own, &state, err))
        return -1;
    const struct keeper_fds fds = {
        .state = own, .dev = (int)o->dev, .listen = (int)o->listen, .report = report};
    int result = words_of(state, argv, err);
    keeper_state_unmap(state);
    if (!result)
        result = wait_for_the_last(own, argv[3], err);
    if (!result)
        result = keeper_start(program, argv, &fds, /* adopt= */ false, NULL, err);
    free(argv[2]);
    free(argv[3]);
    return result;
}

static int run(const struct conf *conf, const void *options, struct err *err)
{
    const struct revive_options *o = options;
    struct daemon_start *start;
    (void)conf;
    if (o->dev < 0 || o->state < 0 || o->listen < 0)
        return err_set(err, ERR_USAGE, "want --dev, --state and --listen");
    int who = daemon_fork(&start, err);
    if (who != 0)
        return who < 0 ? -1 : 0;
    struct err why = {0};
    if (become_keeper(o, daemon_pipe(start), &why) < 0)
        daemon_failed(start, &why);
    else
        daemon_ready(start, &why);
    exit(err_exit_code(&why));
}

const struct command cmd_revive = {
    .name = "revive",
    .args = "",
    .summary = "start a keeper on descriptors that the caller holds",
    .about = "For programs that hold a mount's descriptors.",
    .rows = rows,
    .n_rows = COUNT(rows),
    .options_size = sizeof(struct revive_options),
    .run = run,
};

/* A process that a keeper started: it serves the mount as it was asked for once, not as its own
 * words, variables or files say now. */
#include <fcntl.h>
#include <stdio.h>

#include "mem.h"
#include "program.h"
#include "serve-internal.h"

static int prepare(struct keeper *k, struct kept *kept, struct owner *owner,
                   struct serve_conf *conf, struct store_conf *store, struct err *err)
{
    struct keeper_state *s = keeper_state(k);
    if (kept_load(kept, s, err) ||
        owner_given(owner, conf_arg(kept->conf, 2), &kept->options.set, err))
        return -1;
    if (keeper_held(k)->dev < 0) {
        owner_made_parse(owner, kept_made(s));
    } else {
        kept->options.rescan = false; /* done */
    }
    store_conf_of(&kept->options.store, store);
    conf->options = &kept->options;
    conf->set = conf_arg(kept->conf, 0);
    conf->mountpoint = conf_arg(kept->conf, 1);
    conf->owner = owner;
    conf->store = store;
    conf->keeper = k;
    return 0;
}

static int live(struct keeper *k, char *const *argv, struct err *err)
{
    struct kept kept = {0};
    cleanup_owner struct owner owner = {0};
    struct store_conf store;
    struct serve_conf conf = {.argv = argv};
    int report = keeper_held(k)->report;
    report = report < 0 ? -1 : fcntl(report, F_DUPFD_CLOEXEC, 3);
    if (report >= 0)
        conf.start = daemon_resume(report);
    program_raise_files();
    program_keep_secrets();
    int result = prepare(k, &kept, &owner, &conf, &store, err);
    if (!result && !keeper_refuses(k)) /* what serves nothing needs no folder either */
        result = owner_lock(&owner, err);
    if (!result)
        result = serve(&conf, err);
    if (result && !conf.was_ready && keeper_held(k)->dev < 0)
        owner_unmake(&owner);
    if (result && conf.start)
        daemon_failed(conf.start, err); /* who waits prints it */
    else if (result)
        fprintf(stderr, "sampan mount: %s\n", err->msg);
    kept_release(&kept);
    return result;
}

int life_main(char *const *argv)
{
    struct keeper *k;
    struct err err = {0};
    if (keeper_attach(&k, &err)) {
        fprintf(stderr, "sampan mount: %s\n", err.msg);
        return err_exit_code(&err);
    }
    int result = live(k, argv, &err);
    keeper_detach(k);
    return result ? err_exit_code(&err) : 0;
}

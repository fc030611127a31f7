/* sampan-train: options, then training until it is done or a signal comes. */
#define LOG_MODULE "train"
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "curves.h"
#include "launch.h"
#include "log.h"
#include "mem.h"
#include "options.h"
#include "predict.h"
#include "program.h"
#include "ps-secret.h"
#include "pserver.h"
#include "rendezvous.h"
#include "roles.h"
#include "train.h"

static atomic_int stop;               /* the signal that asks for an end */
static volatile sig_atomic_t at_once; /* nothing would be lost: whatever is waited for, it ends */

static void on_signal(int number)
{
    static const char text[] = "sampan-train: stopped by a signal before the first step\n";
    if (at_once) {
        (void)!write(STDERR_FILENO, text, sizeof text - 1);
        _exit(128 + number);
    }
    stop = number;
}

static void watch_signals(void)
{
    struct sigaction act = {.sa_handler = on_signal};
    sigemptyset(&act.sa_mask);
    sigaction(SIGTERM, &act, NULL);
    sigaction(SIGINT, &act, NULL);
    act.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &act, NULL);
}

static int complain(const struct err *err)
{
    return program_complain("sampan-train", err);
}

static struct program_about about(void)
{
    return (struct program_about){
        .name = "sampan-train",
        .summary = "trains a model on a folder of samples",
        .rows = options_rows,
        .n_rows = options_n_rows,
        .more =
            "sampan-train pserver keeps parameters for trainers, sampan-train predict answers by "
            "what was learned, sampan-train ui shows how training goes, sampan-train launch runs a "
            "server and a trainer in each pod of a batch/v1 Job, and sampan-train split deals "
            "samples out for that. Each but pserver, whose options are these, has a page of its "
            "own.\n\n"
            "SIGTERM and SIGINT end a training after its step, with a checkpoint where there is a "
            "--save_dir: it exits with 143 or 130, and the same command goes on from there."};
}

static int help(struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    bytes_add_str(&text, "sampan-train [OPTION]…          trains a model\n"
                         "sampan-train pserver [OPTION]…  keeps parameters for trainers\n"
                         "sampan-train predict --checkpoint DIR  answers by what was learned\n"
                         "sampan-train ui --log_dir DIR   shows how training goes, as a page\n"
                         "sampan-train launch [OPTION]…   both, in each pod of a batch/v1 Job\n"
                         "sampan-train split --parts N SRC JOB  deals samples out for that\n"
                         "sampan-train --version          says which it is\n"
                         "sampan-train --man              the manual page's source (man -l -)\n"
                         "\n");
    conf_help(options_rows, options_n_rows, &text);
    fputs(text.data, stdout);
    return program_printed(err);
}

/* The log begins with how the trainer was called. */
static void log_command(struct log *log, int argc, char **argv)
{
    cleanup_bytes struct bytes text = {0};
    for (int i = 0; i < argc; i++)
        bytes_addf(&text, "%s%s", i ? " " : "", argv[i]);
    log_info(log, "commandline: %s", text.data);
}

static int serve(const struct options *o, const struct roles *roles, struct log *log,
                 struct err *err)
{
    struct rendezvous r;
    int64_t ranks = roles->ranks >= 0 ? roles->ranks : o->num_gradient_servers;
    cleanup_secret struct secret secret = {0};
    if (rendezvous_find(&r, 0, ranks, "here", (const char *(*)(const char *))getenv, err) ||
        ps_secret_read(&secret, o->ps_token_file, err))
        return -1;
    const struct pserver_conf conf = {.address = roles->address[0] ? roles->address : NULL,
                                      .ports = (const char *const *)roles->ports,
                                      .n_ports = roles->n_ports,
                                      .job = o->comment,
                                      .secret = &secret,
                                      .ranks = r.ranks,
                                      .threads = (int)o->trainer_count,
                                      .timeout_ns = o->rendezvous_timeout,
                                      .log = log,
                                      .stop = &stop};
    return pserver_run(&conf, err);
}

static int run(const struct options *o, bool is_server, struct log *log, struct err *err)
{
    struct roles roles;
    struct train_end end = {0};
    if (roles_find(&roles, o, is_server, (const char *(*)(const char *))getenv, err))
        return -1;
    bool serves = roles.role == ROLE_SERVER;
    if (roles.role == ROLE_ALONE && o->pservers && *o->pservers)
        log_warn(log, "--pservers: without effect, for --local is 1");
    const struct train_signals signals = {&stop, &at_once};
    int code = serves ? serve(o, &roles, log, err) : train_run(o, &roles, log, &signals, &end, err);
    roles_release(&roles);
    if (code == 0 && serves)
        log_info(log, "all trainers have ended");
    else if (code == 0)
        log_info(log, "done: step=%llu cost=%.9g", (unsigned long long)end.steps, end.loss);
    if (code > 0 && !serves)
        log_info(log, "stopped by a signal after step %llu%s", (unsigned long long)end.steps,
                 o->save_dir ? "; the same command goes on from there" : "");
    return code <= 0 ? code : 128 + (stop ? (int)stop : SIGTERM);
}

/* A trainer, or (is_server) a parameter server. */
static int train(int argc, char **argv, bool is_server)
{
    struct err err = {0};
    struct conf *conf = NULL;
    struct options o;
    int told = options_read(&o, &conf, argc - is_server, argv + is_server, &err);
    if (told == 0 && conf_help_asked(conf))
        told = help(&err);
    if (told) {
        conf_free(conf);
        return told < 0 ? complain(&err) : 0;
    }
    struct log *log;
    const struct program_log how = {.level = o.log_level, .format = o.log_format};
    int code = 0;
    if (program_log_open(&log, &how, &err)) /* its options are spelt otherwise there */
        code = err_set(&err, ERR_USAGE, "--log_level: %s: want error, warn, info or debug",
                       o.log_level);
    if (code == 0) {
        log_command(log, argc, argv);
        watch_signals();
        code = run(&o, is_server, log, &err);
    }
    if (code < 0)
        code = complain(&err);
    log_free(log);
    conf_free(conf);
    return code;
}

/* This program's file. False: the system does not say. */
static bool find_self(char ret[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", ret, PATH_MAX - 1);
    ret[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* Threads that compute sleep while they wait for each other: spinning, as OpenMP does by default,
 * takes the cores from those that read and decode. It reads that wish only when it is loaded. */
static void wait_asleep(char **argv)
{
    char self[PATH_MAX];
    if (!find_self(self) || getenv("OMP_WAIT_POLICY") || setenv("OMP_WAIT_POLICY", "passive", 1))
        return;
    execv(self, argv); /* if it fails, spinning is all that is lost */
}

static int launch(int argc, char **argv)
{
    struct err err = {0};
    struct launch_conf c;
    char self[PATH_MAX];
    int told = program_told(&launch_about, argc, argv, &err);
    if (told)
        return told < 0 ? complain(&err) : 0;
    if (argc > 1 && strcmp(argv[1], "--help") == 0)
        return program_print_help(&launch_about, &err) < 0 ? complain(&err) : 0;
    struct log *log;
    const struct program_log how = {.level = "info", .format = "text"};
    if (!find_self(self))
        err_set(&err, ERR_FAILED,
                "launch: /proc does not name this program, which is started anew");
    if (!self[0] || launch_read(&c, argc, argv, (const char *(*)(const char *))getenv, &err))
        return complain(&err);
    c.program = self;
    int code = program_log_open(&log, &how, &err);
    if (code == 0) {
        watch_signals();
        code = launch_run(&c, log, &stop, &err);
    }
    if (code < 0)
        code = complain(&err);
    log_free(log);
    launch_release(&c);
    return code;
}

typedef int serve_fn(const void *options, const sigset_t *ends, struct err *err);

/* A program that serves until it is told to end. `options`: zeroed, of the type that both know. */
static int serve_pages(const struct program_about *about, void *options, serve_fn *serves, int argc,
                       char **argv)
{
    struct err err = {0};
    struct conf *conf = NULL;
    sigset_t ends;
    program_hold_signals(&ends);
    int result = program_options(&conf, about, options, argc, argv, &err);
    if (result == 0)
        result = serves(options, &ends, &err);
    conf_free(conf);
    return program_end(about, result, &err);
}

static int run_predict(const void *options, const sigset_t *ends, struct err *err)
{
    return predict_run(options, ends, err);
}

static int predict(int argc, char **argv)
{
    struct predict_options o = {0};
    return serve_pages(&predict_about, &o, run_predict, argc, argv);
}

static int run_curves(const void *options, const sigset_t *ends, struct err *err)
{
    return curves_run(options, ends, err);
}

static int curves(int argc, char **argv)
{
    struct curves_options o = {0};
    return serve_pages(&curves_about, &o, run_curves, argc, argv);
}

static int split(int argc, char **argv)
{
    struct err err = {0};
    int told = program_told(&split_about, argc, argv, &err);
    return told < 0 || (!told && split_run(argc, argv, &err)) ? complain(&err) : 0;
}

int main(int argc, char **argv)
{
    program_keep_standard();
    program_bear_file_limit();
    const struct program_about own = about();
    struct err err = {0};
    int told = program_told(&own, argc, argv, &err);
    if (told)
        return told < 0 ? complain(&err) : 0;
    if (argc > 1 && strcmp(argv[1], "launch") == 0)
        return launch(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "split") == 0)
        return split(argc - 1, argv + 1);
    if (argc > 1 && (strcmp(argv[1], "ui") == 0 || strcmp(argv[1], "--ui") == 0))
        return curves(argc - 1, argv + 1);
    wait_asleep(argv);
    if (argc > 1 && strcmp(argv[1], "predict") == 0)
        return predict(argc - 1, argv + 1);
    return train(argc, argv, argc > 1 && strcmp(argv[1], "pserver") == 0);
}

/*
 * What the programs that run until they are told to end have in common: nothing in their memory
 * reaches a core dump, they hold as many descriptors as they may, a file that may not grow is an
 * error, and the signals that end them are waited for in one place.
 */
#ifndef SAMPAN_BASE_PROGRAM_H
#define SAMPAN_BASE_PROGRAM_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "conf.h"
#include "err.h"
#include "log.h"

/* No file that is opened later becomes standard input, output or error where these are closed: what
 * is printed would be written into it. Called before anything is opened. */
void program_keep_standard(void);
/* How a process that we start ends is ours to hear, though whoever started us ignores it (SIGCHLD):
 * the kernel would put it away unheard, and its number could be another's when it is killed. */
void program_hear_children(void);
/* A write past the largest file that this process may make (ulimit -f) is an error of that write,
 * as on a full disk, and no signal that ends the process. What it starts inherits that. */
void program_bear_file_limit(void);
/* Memory holds keys: no core dump, and no look into it by others of the same user. */
void program_keep_secrets(void);
/* As many descriptors as this process may have at all. Where there are fewer than the work wants,
 * the work says so. */
void program_raise_files(void);
/* SIGTERM, SIGINT and SIGHUP are kept for sigwait(), and a peer that goes away is an error of the
 * write, not a signal. Called before the first thread: every thread inherits it. */
void program_hold_signals(sigset_t *ret);

/* Options that say what is logged; they stand in a program's own options as one field. */
struct program_log {
    const char *level, *format;
};
#define PROGRAM_LOG_ROWS(type, f, form)                                                            \
    {"log-level",                                                                                  \
     CONF_STRING,                                                                                  \
     offsetof(type, f.level),                                                                      \
     .arg = "LEVEL",                                                                               \
     .dflt = "info",                                                                               \
     .help = "error, warn, info or debug; for one module: info,rpc=debug"},                        \
    {                                                                                              \
        "log-format", CONF_ENUM, offsetof(type, f.format), .choices = "text|json", .dflt = (form), \
                                                           .help = "Form of log lines"             \
    }
/* A log on stderr. */
int program_log_open(struct log **ret, const struct program_log *o, struct err *err);

/* A program without verbs: its name, what it is, and its options. */
struct program_about {
    const char *name, *summary;
    const struct conf_row *rows;
    size_t n_rows;
    const char *args; /* what stands behind its options; NULL: nothing may */
    const char *more; /* paragraphs for its manual page, below the summary; NULL: none */
    bool words_only;  /* options are words alone: neither variables nor a file give them */
};
/* 1: the version, or the manual page's source, was asked for, and printed. 0: it was not. */
int program_told(const struct program_about *about, int argc, char *const *argv, struct err *err);
int program_print_help(const struct program_about *about, struct err *err);
/* 1: what was printed is out. -1: not all of it (a full disk, a closed pipe). */
int program_printed(struct err *err);
/* Parses the command line, which has options only. 1: help, the manual page or the version was
 * asked for, and printed. */
int program_options(struct conf **ret, const struct program_about *about, void *options, int argc,
                    char *const *argv, struct err *err);
/* Names may hold line ends and what terminals obey: each such byte becomes a blank; with disarm()
 * line ends stay. */
void one_line(char *text);
void disarm(char *text);
/* A path or URI as a shell takes it, for a command that is advised: in quotes if it must be. The
 * caller's. */
char *shell_word(const char *text);
/* Says the error on stderr, in one line whatever it holds: the exit code, which is never 0. */
int program_complain(const char *name, const struct err *err);
/* The exit code; an error is said. */
int program_end(const struct program_about *about, int result, const struct err *err);

#endif

/*
 * Options as data: one row gives the command-line flag, the environment variable, the line of the
 * configuration file, the bounds, the default and the help text.
 *
 * Priority: command line, then SAMPAN_NAME (upper case, '-' as '_'), then --config FILE, then the
 * default. conf_parse() fills a caller's struct through the rows' offsets; strings it stores live
 * as long as the `struct conf`.
 */
#ifndef SAMPAN_BASE_CONF_H
#define SAMPAN_BASE_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "err.h"

enum conf_type {
    CONF_FLAG,     /* bool; --no-NAME where the row's name starts with "no-" is just a flag */
    CONF_INT,      /* int64_t with min..max; of at most 1: also what a flag may be, for 0 and 1 */
    CONF_SIZE,     /* uint64_t bytes: 10GiB, 64K (1024), 5MB (1000) */
    CONF_RATE,     /* uint64_t bytes a second: 6MB, 50Mbit */
    CONF_DURATION, /* uint64_t nanoseconds: 250ms, 2s, 5m */
    CONF_STRING,   /* const char * */
    CONF_LIST,     /* struct conf_list: the option may be repeated */
    CONF_ENUM,     /* const char *, one of `choices` separated by '|' */
};

struct conf_list {
    const char **items;
    const unsigned *places; /* of each item among those of all lists, as they were given */
    size_t n;
};

struct conf_row {
    const char *name; /* "free-space": the flag is --free-space */
    enum conf_type type;
    size_t offset;       /* into the caller's struct */
    const char *dflt;    /* as a user would write it; NULL: zero / empty */
    const char *arg;     /* "SIZE", shown in help; NULL for flags */
    const char *choices; /* CONF_ENUM */
    int64_t min, max;    /* CONF_INT; both 0: no bound. CONF_SIZE, CONF_DURATION: at least `min` */
    const char *help;    /* one sentence */
};

enum conf_origin { CONF_DEFAULT, CONF_FILE, CONF_ENV, CONF_CLI };

struct conf;

/*
 * Parses argv[1..]. Positional arguments are collected; "--" ends options; `--config FILE` and
 * `--help` are understood by all. An unknown option is ERR_USAGE and suggests the nearest known
 * one. `ret` holds the strings and must outlive the use of `out`.
 */
int conf_parse(struct conf **ret, const struct conf_row *rows, size_t n_rows, void *out, int argc,
               char *const *argv, struct err *err);
/* The same for one of several commands that share a configuration file: keys of `elsewhere` in the
 * file belong to the others and are passed over. */
int conf_parse_shared(struct conf **ret, const struct conf_row *rows, size_t n_rows,
                      const char *const *elsewhere, size_t n_elsewhere, void *out, int argc,
                      char *const *argv, struct err *err);
/* The same from the words alone: neither environment nor file are looked at. */
int conf_parse_words(struct conf **ret, const struct conf_row *rows, size_t n_rows, void *out,
                     int argc, char *const *argv, struct err *err);
void conf_free(struct conf *c);
size_t conf_n_args(const struct conf *c);
const char *conf_arg(const struct conf *c, size_t i);
bool conf_help_asked(const struct conf *c);
enum conf_origin conf_origin_of(const struct conf *c, const char *name);
/* The first option, in the rows' order, that the command line gives and that is none of `names`
 * (NULL ends them); NULL: there is none. Files and the environment serve other calls too. */
const char *conf_given_besides(const struct conf *c, const char *const *names);
const char *
conf_origin_name(enum conf_origin o); /* "default", "file", "environment", "command line" */
void conf_print_value(const struct conf *c, const struct conf_row *row, const void *out,
                      struct bytes *text);
void conf_help(const struct conf_row *rows, size_t n_rows, struct bytes *text);
/* What it says behind a row's help: whether it may be repeated, its bounds and its default. */
void conf_notes(const struct conf_row *row, struct bytes *text);

/* The parsers alone. */
int conf_size(const char *text, uint64_t *ret, struct err *err);
int conf_rate(const char *text, uint64_t *ret, struct err *err);
int conf_duration(const char *text, uint64_t *ret, struct err *err);
/* 0 to 65535, digits alone. Names of services are none, and getaddrinfo() takes any number. */
bool conf_is_port(const char *text);
/* Is it one of "a|b|c"? */
bool conf_is_choice(const char *choices, const char *text);
void conf_format_size(uint64_t n, char out[32]);                   /* "1.5 GiB" */
void conf_format_count(uint64_t n, const char *one, char out[64]); /* "1 sample", "2 samples" */
void conf_format_duration(double s, char out[32]);                 /* "2m10s" */
/* The nearest of the candidates by edit distance, or NULL if none is near. */
const char *conf_nearest(const char *word, const char *const *candidates, size_t n);
/* The same for a word that need not be meant as one of them: a slip of the finger away (two, if it
 * is long), not more. */
const char *conf_mistyped(const char *word, const char *const *candidates, size_t n);

/* Variables like SAMPAN_NAME that no option of these names reads, but that look like a slip in
 * writing one: `fn` hears of each, and which was meant. Others are let be: the environment is not
 * ours alone (Kubernetes puts a SAMPAN_PORT into pods beside a service of that name). */
typedef void conf_slip_fn(void *arg, const char *variable, const char *meant);
void conf_env_slips(const char *const *names, size_t n, conf_slip_fn *fn, void *arg);

#endif

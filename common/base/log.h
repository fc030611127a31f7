/*
 * Logs: key=value lines or JSON lines; and the type of secrets, which no log can print.
 *
 * Only a program's main makes a `struct log`; modules get one in their configuration and may get
 * NULL (silence). Errors that a function returns are not logged by it. A line:
 *   2026-11-21T13:24:12.123Z info fetch: slow link rate=1200 want=4000
 */
#ifndef SAMPAN_BASE_LOG_H
#define SAMPAN_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "cleanup.h"
#include "err.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_TEXT, LOG_JSON };

struct log;

/* `out` stays the caller's and must outlive the log. `program` may be NULL. */
struct log *log_new(FILE *out, enum log_level level, enum log_format format, const char *program);
void log_free(struct log *l);
/* "debug" or "info,fetch=debug,fuse=debug": a level for all and for single modules. 0, or -1. */
int log_set_levels(struct log *l, const char *spec);
/* ERR_USAGE if the spec names a module that logs nothing in this program; says which do. */
int log_check_modules(const char *spec, struct err *err);
bool log_wants(const struct log *l, enum log_level level, const char *module);
__attribute__((format(printf, 4, 5))) void log_at(struct log *l, enum log_level level,
                                                  const char *module, const char *fmt, ...);

/* Each .c file defines LOG_MODULE before it includes this header. The linker lays the names of all
 * into one array: which modules there are is known without a list of them. */
struct log_module {
    char name[32];
} __attribute__((aligned(32))); /* as large as aligned: the linker leaves no gap between them */
#ifdef LOG_MODULE
static const struct log_module log_module_here
    __attribute__((used, section("log_modules"))) = {LOG_MODULE};
#endif
#define log_error(l, ...) log_at((l), LOG_ERROR, LOG_MODULE, __VA_ARGS__)
#define log_warn(l, ...)  log_at((l), LOG_WARN, LOG_MODULE, __VA_ARGS__)
#define log_info(l, ...)  log_at((l), LOG_INFO, LOG_MODULE, __VA_ARGS__)
#define log_debug(l, ...) log_at((l), LOG_DEBUG, LOG_MODULE, __VA_ARGS__)

/* A secret: kept out of core dumps, wiped on release, never formatted. NULL text = unset. */
struct secret {
    char *text;
    size_t len;
};
void secret_set(struct secret *s, const char *text, size_t len); /* copies */
void secret_release(struct secret *s);
#define cleanup_secret CLEANUP(secret_release)

#endif

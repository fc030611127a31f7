/* Log lines, and the type of secrets. */
#include "log.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "buf.h"
#include "clock.h"
#include "json.h"
#include "mem.h"
#include "sync.h"

static const char *const level_names[] = {"error", "warn", "info", "debug"};
#define N_LEVELS (sizeof level_names / sizeof level_names[0])

#define MODULES_MAX 32

struct module_level {
    struct log_module module;
    enum log_level level;
};

/* Where the linker's array begins and ends; NULL both, where nothing logs. */
extern const struct log_module __start_log_modules[] __attribute__((weak, visibility("hidden")));
extern const struct log_module __stop_log_modules[] __attribute__((weak, visibility("hidden")));

struct levels {
    enum log_level all;
    struct module_level modules[MODULES_MAX];
    size_t n;
};

struct log {
    FILE *out;
    enum log_format format;
    const char *program;
    struct lock lock; /* one line at a time; guards `levels` too */
    struct levels levels;
};

struct log *log_new(FILE *out, enum log_level level, enum log_format format, const char *program)
{
    struct log *l = xcalloc(1, sizeof *l);
    l->out = out;
    l->format = format;
    l->program = program;
    l->levels.all = level;
    lock_init(&l->lock, RANK_LOG, "log");
    return l;
}

void log_free(struct log *l)
{
    if (!l)
        return;
    fflush(l->out);
    lock_destroy(&l->lock);
    free(l);
}

static int level_of(const char *text, size_t len, enum log_level *ret)
{
    for (size_t i = 0; i < N_LEVELS; i++) {
        if (strlen(level_names[i]) == len && memcmp(level_names[i], text, len) == 0) {
            *ret = (enum log_level)i;
            return 0;
        }
    }
    return -1;
}

/* One part of a spec: "LEVEL" or "MODULE=LEVEL". */
static int levels_add(struct levels *levels, const char *part, size_t len)
{
    const char *equals = memchr(part, '=', len);
    if (!equals)
        return level_of(part, len, &levels->all);
    struct module_level m = {0};
    size_t name_len = (size_t)(equals - part);
    if (name_len == 0 || name_len >= sizeof m.module.name || levels->n == MODULES_MAX)
        return -1;
    memcpy(m.module.name, part, name_len);
    if (level_of(equals + 1, len - name_len - 1, &m.level))
        return -1;
    levels->modules[levels->n++] = m;
    return 0;
}

int log_set_levels(struct log *l, const char *spec)
{
    struct levels levels = {.all = LOG_INFO};
    for (const char *part = spec;; part++) {
        size_t len = strcspn(part, ",");
        if (levels_add(&levels, part, len))
            return -1;
        part += len;
        if (!*part)
            break;
    }
    if (l) {
        ACQUIRE(&l->lock);
        l->levels = levels;
    }
    return 0;
}

static bool is_module(const char *name, size_t len)
{
    for (const struct log_module *m = __start_log_modules; m < __stop_log_modules; m++)
        if (strlen(m->name) == len && memcmp(m->name, name, len) == 0)
            return true;
    return false;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct log_module *)a)->name, ((const struct log_module *)b)->name);
}

/* Each once: a module has as many rows as files that log. */
static void list_modules(struct bytes *out)
{
    size_t n = (size_t)(__stop_log_modules - __start_log_modules);
    cleanup_free struct log_module *all = xcalloc(n, sizeof *all);
    memcpy(all, __start_log_modules, n * sizeof *all);
    qsort(all, n, sizeof *all, by_name);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || by_name(&all[i - 1], &all[i]) != 0)
            bytes_addf(out, "%s%s", i ? ", " : "", all[i].name);
}

int log_check_modules(const char *spec, struct err *err)
{
    cleanup_bytes struct bytes known = {0};
    for (const char *part = spec;; part++) {
        size_t len = strcspn(part, ","), name = strcspn(part, ",=");
        if (name < len && !is_module(part, name)) {
            list_modules(&known);
            return err_set(err, ERR_USAGE, "\"%.*s\" is no module that logs here (want one of %s)",
                           (int)name, part, known.data ? known.data : "none");
        }
        part += len;
        if (!*part)
            return 0;
    }
}

static bool wants_locked(const struct log *l, enum log_level level, const char *module)
{
    for (size_t i = 0; i < l->levels.n; i++)
        if (strcmp(l->levels.modules[i].module.name, module) == 0)
            return level <= l->levels.modules[i].level;
    return level <= l->levels.all;
}

bool log_wants(const struct log *l, enum log_level level, const char *module)
{
    if (!l)
        return false;
    struct lock *lock = (struct lock *)&l->lock;
    ACQUIRE(lock);
    return wants_locked(l, level, module);
}

static void add_time(struct bytes *line)
{
    int64_t ns = clock_wall_ns();
    char text[CLOCK_TEXT];
    clock_text(ns / (int64_t)NS_PER_S, text);
    bytes_addf(line, "%.19s.%03dZ", text, (int)(ns / (int64_t)NS_PER_MS % 1000));
}

/* Control characters would let a file name forge a line. */
static void add_printable(struct bytes *line, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c == 0x7f)
            bytes_addf(line, "\\x%02x", c);
        else
            bytes_add_char(line, (char)c);
    }
}

static void write_text(struct bytes *line, const struct log *l, enum log_level level,
                       const char *module, const char *message)
{
    add_time(line);
    bytes_addf(line, " %s ", level_names[level]);
    if (l->program)
        bytes_addf(line, "%s ", l->program);
    bytes_addf(line, "%s: ", module);
    add_printable(line, message);
}

static void write_json(struct bytes *line, const struct log *l, enum log_level level,
                       const char *module, const char *message)
{
    cleanup_bytes struct bytes when = {0};
    add_time(&when);
    struct json_writer w;
    jw_init(&w, line);
    jw_object(&w, NULL);
    jw_str(&w, "time", when.data);
    jw_str(&w, "level", level_names[level]);
    if (l->program)
        jw_str(&w, "program", l->program);
    jw_str(&w, "module", module);
    jw_str(&w, "msg", message);
    jw_end(&w);
}

void log_at(struct log *l, enum log_level level, const char *module, const char *fmt, ...)
{
    if (!log_wants(l, level, module))
        return;
    char message[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    cleanup_bytes struct bytes line = {0};
    if (l->format == LOG_JSON)
        write_json(&line, l, level, module, message);
    else
        write_text(&line, l, level, module, message);
    bytes_add_char(&line, '\n');
    ACQUIRE(&l->lock);
    fwrite(line.data, 1, line.len, l->out);
    fflush(l->out);
}

/* --- secrets ---------------------------------------------------------------------------------- */

/* Each secret has pages of its own: MADV_DONTDUMP works on pages, and so does unmapping. */
static size_t secret_map_size(size_t len)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (len + 1 + page - 1) / page * page;
}

void secret_set(struct secret *s, const char *text, size_t len)
{
    struct secret old = *s;
    *s = (struct secret){0};
    if (text) {
        size_t size = secret_map_size(len);
        char *copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (copy == MAP_FAILED) {
            fprintf(stderr, "out of memory: %zu bytes: the system has none left\n", size);
            abort();
        }
        madvise(copy, size, MADV_DONTDUMP); /* best effort: a kernel without it still works */
        memcpy(copy, text, len);
        s->text = copy;
        s->len = len;
    }
    secret_release(&old); /* last: `text` may point into the old one */
}

void secret_release(struct secret *s)
{
    if (!s->text)
        return;
    explicit_bzero(s->text, s->len);
    munmap(s->text, secret_map_size(s->len));
    *s = (struct secret){0};
}

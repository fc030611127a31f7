/* Values of options: from text into the caller's struct, and back for printing. */
#include "conf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "conf-internal.h"
#include "mem.h"

/* Takes ownership of `text`, returns it. */
static const char *conf_own(struct conf *c, char *text)
{
    c->strings = xrealloc(c->strings, (c->n_strings + 1) * sizeof *c->strings);
    c->strings[c->n_strings++] = text;
    return text;
}

static void *field(const struct conf_row *row, void *out)
{
    return (char *)out + row->offset;
}

static int store_flag(const char *text, bool *ret, struct err *err)
{
    static const char *const yes[] = {"true", "yes", "on", "1", "True"}; /* the last: Python's */
    static const char *const no[] = {"false", "no", "off", "0", "False"};
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
            *ret = strcmp(text, yes[i]) == 0;
            return 0;
        }
    }
    return err_set(err, ERR_USAGE, "\"%s\" is neither true nor false", text);
}

static int store_int(const struct conf_row *row, const char *text, int64_t *ret, struct err *err)
{
    char *end;
    bool on;
    if (row->max == 1 && row->min <= 0 && store_flag(text, &on, NULL) == 0) {
        *ret = on;
        return 0;
    }
    bool digits = text[0] != '\0' && text[strspn(text, "-0123456789")] == '\0';
    long long n = digits ? strtoll(text, &end, 10) : 0;
    if (!digits || *end || strlen(text) > 19)
        return err_set(err, ERR_USAGE, "\"%s\" is not a whole number", text);
    if ((row->min || row->max) && (n < row->min || n > row->max))
        return err_set(err, ERR_USAGE, "%lld is not within %" PRId64 " to %" PRId64, n, row->min,
                       row->max);
    *ret = n;
    return 0;
}

static int store_size(const struct conf_row *row, const char *text, uint64_t *ret, struct err *err)
{
    uint64_t n;
    char least[32];
    if (conf_size(text, &n, err))
        return -1;
    if (n < (uint64_t)row->min) {
        conf_format_size((uint64_t)row->min, least);
        return err_set(err, ERR_USAGE, "\"%s\" is too little (at least %s)", text, least);
    }
    *ret = n;
    return 0;
}

static int store_duration(const struct conf_row *row, const char *text, uint64_t *ret,
                          struct err *err)
{
    uint64_t ns;
    char least[32];
    if (conf_duration(text, &ns, err))
        return -1;
    if (ns < (uint64_t)row->min) {
        conf_format_duration((double)row->min / 1e9, least);
        return err_set(err, ERR_USAGE, "\"%s\" is too short (at least %s)", text, least);
    }
    *ret = ns;
    return 0;
}

bool conf_is_choice(const char *choices, const char *text)
{
    size_t len = strlen(text);
    for (const char *p = choices;; p++) {
        size_t n = strcspn(p, "|");
        if (n == len && memcmp(p, text, n) == 0)
            return true;
        p += n;
        if (!*p)
            return false;
    }
}

static void store_list(struct conf *c, size_t i, enum conf_origin origin, const char *text,
                       struct conf_list *ret)
{
    struct conf_list *list = &c->lists[i];
    if (c->origins[i] != origin)
        list->n = 0;
    list->items = xrealloc(list->items, (list->n + 1) * sizeof *list->items);
    unsigned *places = xrealloc((void *)list->places, (list->n + 1) * sizeof *places);
    places[list->n] = c->n_listed++;
    list->places = places;
    list->items[list->n++] = conf_own(c, xstrdup(text));
    *ret = *list;
}

static int store_value(struct conf *c, size_t i, enum conf_origin origin, const char *text,
                       void *to, struct err *err)
{
    const struct conf_row *row = &c->rows[i];
    switch (row->type) {
    case CONF_FLAG:
        return store_flag(text, to, err);
    case CONF_INT:
        return store_int(row, text, to, err);
    case CONF_SIZE:
        return store_size(row, text, to, err);
    case CONF_RATE:
        return conf_rate(text, to, err);
    case CONF_DURATION:
        return store_duration(row, text, to, err);
    case CONF_LIST:
        store_list(c, i, origin, text, to);
        return 0;
    case CONF_ENUM:
        if (!conf_is_choice(row->choices, text))
            return err_set(err, ERR_USAGE, "\"%s\" is not one of %s", text, row->choices);
        *(const char **)to = conf_own(c, xstrdup(text));
        return 0;
    case CONF_STRING:
        *(const char **)to = conf_own(c, xstrdup(text));
        return 0;
    }
    return err_set(err, ERR_BUG, "option of unknown type");
}

int conf_store(struct conf *c, size_t i, enum conf_origin origin, const char *label,
               const char *text, void *out, struct err *err)
{
    const struct conf_row *row = &c->rows[i];
    if (store_value(c, i, origin, text, field(row, out), err))
        return err_wrap(err, "%s", label);
    c->origins[i] = origin;
    return 0;
}

/* --- reading it back -------------------------------------------------------------------------- */

size_t conf_n_args(const struct conf *c)
{
    return c->n_args;
}

const char *conf_arg(const struct conf *c, size_t i)
{
    return i < c->n_args ? c->args[i] : NULL;
}

bool conf_help_asked(const struct conf *c)
{
    return c->help_asked;
}

enum conf_origin conf_origin_of(const struct conf *c, const char *name)
{
    for (size_t i = 0; i < c->n_rows; i++)
        if (strcmp(c->rows[i].name, name) == 0)
            return c->origins[i];
    return CONF_DEFAULT;
}

static bool is_among(const char *const *names, const char *name)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

const char *conf_given_besides(const struct conf *c, const char *const *names)
{
    for (size_t i = 0; i < c->n_rows; i++)
        if (c->origins[i] == CONF_CLI && !is_among(names, c->rows[i].name))
            return c->rows[i].name;
    return NULL;
}

const char *conf_origin_name(enum conf_origin o)
{
    static const char *const names[] = {"default", "file", "environment", "command line"};
    return names[o];
}

/* The shortest text that conf_size() reads back as the same number. */
static void print_size(uint64_t n, struct bytes *text)
{
    static const char *const names[] = {"", "KiB", "MiB", "GiB", "TiB"};
    size_t i = 0;
    for (; n && n % 1024 == 0 && i < 4; i++)
        n /= 1024;
    bytes_addf(text, "%" PRIu64 "%s", n, names[i]);
}

/* As conf_duration() reads it back. */
static void print_duration(uint64_t ns, struct bytes *text)
{
    static const struct {
        uint64_t ns;
        const char *name;
    } units[] = {
        {86400000000000, "d"}, {3600000000000, "h"}, {60000000000, "m"}, {1000000000, "s"}};
    for (size_t i = 0; ns && i < sizeof units / sizeof units[0]; i++) {
        if (ns % units[i].ns == 0) {
            bytes_addf(text, "%" PRIu64 "%s", ns / units[i].ns, units[i].name);
            return;
        }
    }
    bytes_addf(text, "%" PRIu64, ns / 1000000);
    int digits = 6;
    uint64_t part = ns % 1000000;
    for (; part && part % 10 == 0; part /= 10)
        digits--;
    if (part)
        bytes_addf(text, ".%0*" PRIu64, digits, part);
    bytes_add_str(text, "ms");
}

void conf_print_value(const struct conf *c, const struct conf_row *row, const void *out,
                      struct bytes *text)
{
    (void)c;
    const void *from = (const char *)out + row->offset;
    switch (row->type) {
    case CONF_FLAG:
        bytes_add_str(text, *(const bool *)from ? "true" : "false");
        break;
    case CONF_INT:
        bytes_addf(text, "%" PRId64, *(const int64_t *)from);
        break;
    case CONF_SIZE:
    case CONF_RATE:
        print_size(*(const uint64_t *)from, text);
        break;
    case CONF_DURATION:
        print_duration(*(const uint64_t *)from, text);
        break;
    case CONF_STRING:
    case CONF_ENUM:
        bytes_add_str(text, *(const char *const *)from ? *(const char *const *)from : "");
        break;
    case CONF_LIST: {
        const struct conf_list *list = from;
        for (size_t i = 0; i < list->n; i++)
            bytes_addf(text, "%s%s", i ? ", " : "", list->items[i]);
        break;
    }
    }
}

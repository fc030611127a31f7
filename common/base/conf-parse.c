/* The four places an option comes from, weakest first: defaults, file, environment, command line.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conf-internal.h"
#include "mem.h"

#define FILE_MAX (1u << 20)

/* Understood by every command besides its rows. */
static const char *const built_in[] = {"config", "help"};

static bool is_one_of(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static bool is_built_in(const char *name)
{
    return is_one_of(built_in, sizeof built_in / sizeof built_in[0], name);
}

static size_t find_row(const struct conf *c, const char *name, size_t len)
{
    for (size_t i = 0; i < c->n_rows; i++)
        if (strlen(c->rows[i].name) == len && memcmp(c->rows[i].name, name, len) == 0)
            return i;
    return SIZE_MAX;
}

static int unknown(const struct conf *c, const char *prefix, const char *name, struct err *err)
{
    const char **names = xcalloc(c->n_rows + 2, sizeof *names);
    for (size_t i = 0; i < c->n_rows; i++)
        names[i] = c->rows[i].name;
    names[c->n_rows] = built_in[0];
    names[c->n_rows + 1] = built_in[1];
    const char *near = conf_nearest(name, names, c->n_rows + 2);
    if (near)
        err_set(err, ERR_USAGE, "unknown option %s%s (did you mean %s%s?)", prefix, name, prefix,
                near);
    else
        err_set(err, ERR_USAGE, "unknown option %s%s (--help lists those known)", prefix, name);
    free(names);
    return -1;
}

static int load_defaults(struct conf *c, void *out, struct err *err)
{
    for (size_t i = 0; i < c->n_rows; i++) {
        if (!c->rows[i].dflt)
            continue;
        if (conf_store(c, i, CONF_DEFAULT, c->rows[i].name, c->rows[i].dflt, out, err))
            return err_wrap(err, "default");
    }
    return 0;
}

/* --- the file: "key = value" lines, '#' comments ---------------------------------------------- */

/* Behind a value a comment is a '#' between blanks: names of files may have others. */
static void cut_comment(char *text)
{
    for (char *p = text; (p = strchr(p, '#')); p++)
        if (p > text && isspace((unsigned char)p[-1]) && isspace((unsigned char)p[1])) {
            *p = '\0';
            return;
        }
}

static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t len = strlen(text);
    while (len && isspace((unsigned char)text[len - 1]))
        text[--len] = '\0';
    return text;
}

static int file_line(struct conf *c, void *out, char *line, struct err *err)
{
    line = trim(line);
    if (!*line || *line == '#')
        return 0;
    char *equals = strchr(line, '=');
    if (!equals)
        return err_set(err, ERR_USAGE, "\"%s\": want key = value", line);
    *equals = '\0';
    cut_comment(equals + 1);
    char *key = trim(line), *value = trim(equals + 1);
    size_t row = find_row(c, key, strlen(key));
    if (row != SIZE_MAX && c->rows[row].type != CONF_LIST && c->origins[row] == CONF_FILE)
        return err_set(err, ERR_USAGE, "%s: given twice in this file (keep one of them)", key);
    if (row != SIZE_MAX)
        return conf_store(c, row, CONF_FILE, key, value, out, err);
    if (is_built_in(key))
        return err_set(err, ERR_USAGE, "%s: on the command line alone", key);
    /* One file serves all commands: a key of another one is fine here, a key of none is a mistake.
     */
    return is_one_of(c->elsewhere, c->n_elsewhere, key) ? 0 : unknown(c, "", key, err);
}

/* A device may have no end, and no line that ends. */
static int read_file(const char *file, struct bytes *ret, struct err *err)
{
    cleanup_file FILE *f = fopen(file, "re");
    if (!f)
        return err_sys(err, errno, "open the configuration: %s", file);
    char part[4096];
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0 && ret->len <= FILE_MAX;)
        bytes_add(ret, part, n);
    if (ferror(f))
        return err_sys(err, errno ? errno : EIO, "read the configuration: %s", file);
    if (ret->len > FILE_MAX || (ret->len && memchr(ret->data, '\0', ret->len)))
        return err_set(err, ERR_USAGE, "%s: no configuration: want text, a line for each key",
                       file);
    return 0;
}

static int load_file(struct conf *c, const char *file, void *out, struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    if (read_file(file, &text, err))
        return -1;
    char *rest = text.data;
    size_t number = 0;
    /* Some editors begin a file with a mark that it is UTF-8. */
    if (rest && strncmp(rest, "\xef\xbb\xbf", 3) == 0)
        rest += 3;
    for (char *line; (line = strsep(&rest, "\n"));) {
        number++;
        if (file_line(c, out, line, err))
            return err_wrap(err, "%s line %zu", file, number);
    }
    return 0;
}

/* --- the environment -------------------------------------------------------------------------- */

static void env_name(const char *name, struct bytes *ret)
{
    bytes_add_str(ret, "SAMPAN_");
    for (; *name; name++)
        bytes_add_char(ret, *name == '-' ? '_' : (char)toupper((unsigned char)*name));
}

static int load_env(struct conf *c, void *out, struct err *err)
{
    for (size_t i = 0; i < c->n_rows; i++) {
        cleanup_bytes struct bytes name = {0};
        env_name(c->rows[i].name, &name);
        const char *value = getenv(name.data);
        if (value && conf_store(c, i, CONF_ENV, name.data, value, out, err))
            return -1;
    }
    return 0;
}

void conf_env_slips(const char *const *names, size_t n, conf_slip_fn *fn, void *arg)
{
    static const char prefix[] = "SAMPAN_";
    for (char **e = environ; e && *e; e++) {
        if (strncmp(*e, prefix, sizeof prefix - 1) != 0)
            continue;
        size_t len = strcspn(*e, "=");
        cleanup_free char *variable = xstrndup(*e, len),
                          *name = xstrdup(variable + sizeof prefix - 1);
        for (char *p = name; *p; p++)
            *p = *p == '_' ? '-' : (char)tolower((unsigned char)*p);
        const char *near =
            is_one_of(names, n, name) || is_built_in(name) ? NULL : conf_mistyped(name, names, n);
        if (!near)
            continue;
        cleanup_bytes struct bytes meant = {0};
        env_name(near, &meant);
        fn(arg, variable, meant.data);
    }
}

/* --- the command line ------------------------------------------------------------------------- */

struct cli_option {
    const char *name; /* after "--", up to '=' */
    size_t len;
    const char *value; /* after '=', or NULL */
};

static bool is_option(const char *word, struct cli_option *ret)
{
    if (word[0] != '-' || word[1] != '-' || !word[2])
        return false;
    ret->name = word + 2;
    ret->len = strcspn(ret->name, "=");
    ret->value = ret->name[ret->len] ? ret->name + ret->len + 1 : NULL;
    return true;
}

/* An option in front of which a text program has put its own dash for "--": –cache. */
static int check_dash(const struct conf *c, const char *word, struct err *err)
{
    const char *p = word;
    /* U+2010 to U+2015 and the minus sign, in UTF-8 */
    while (strncmp(p, "\u2212", 3) == 0 ||
           (strncmp(p, "\xe2\x80", 2) == 0 && p[2] >= '\x90' && p[2] <= '\x95'))
        p += 3;
    size_t len = strcspn(p, "=");
    cleanup_free char *name = xstrndup(p, len);
    if (p == word || (find_row(c, p, len) == SIZE_MAX && !is_built_in(name)))
        return 0;
    return err_set(err, ERR_USAGE, "\"%.*s%s\" begins with another dash than \"-\": want --%s",
                   (int)(p - word), word, name, name);
}

/* Options that are values of others' (`--cache ssd:…`) are told apart by walking in one direction;
 * the same walk serves the search for --config and the real pass. */
typedef int option_fn(struct conf *c, void *out, size_t row, const char *value, struct err *err);

static int cli_option(struct conf *c, void *out, option_fn *fn, const struct cli_option *o,
                      const char *next, const char **config, struct err *err)
{
    cleanup_free char *name = xstrndup(o->name, o->len);
    size_t row = find_row(c, o->name, o->len);
    bool is_config = row == SIZE_MAX && strcmp(name, "config") == 0;
    if (row == SIZE_MAX && strcmp(name, "help") == 0) {
        c->help_asked = true;
        return 0;
    }
    if (row == SIZE_MAX && !is_config)
        return unknown(c, "--", name, err);
    if (!is_config && c->rows[row].type == CONF_FLAG)
        return fn(c, out, row, o->value ? o->value : "true", err);
    const char *value = o->value ? o->value : next;
    if (!value)
        return err_set(err, ERR_USAGE, "--%s: needs a value", name);
    if (is_config)
        *config = value;
    else if (fn(c, out, row, value, err))
        return -1;
    return o->value ? 0 : 1; /* 1: the next word was the value */
}

/* The one short option that habit makes is -o, where a row named "o" is there. Its value is `next`;
 * 1: that was used. */
static int short_option(struct conf *c, void *out, option_fn *fn, const char *word,
                        const char *next, struct err *err)
{
    size_t row = word[2] ? SIZE_MAX : find_row(c, word + 1, 1);
    if (row == SIZE_MAX)
        return unknown(c, "-", word + 1, err);
    if (!next)
        return err_set(err, ERR_USAGE, "%s: needs a value", word);
    return fn(c, out, row, next, err) ? -1 : 1;
}

static int walk(struct conf *c, void *out, option_fn *fn, int argc, char *const *argv,
                const char **config, struct err *err)
{
    bool options = true;
    c->n_args = 0;
    for (int i = 1; i < argc; i++) {
        struct cli_option o;
        char *word = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
        int used = 0;
        if (!options || word[0] != '-' || !word[1]) {
            if (options && check_dash(c, word, err))
                return -1;
            c->args[c->n_args++] = word;
        } else if (strcmp(word, "--") == 0) {
            options = false;
        } else if (strcmp(word, "-h") == 0) {
            c->help_asked = true;
        } else if (is_option(word, &o)) {
            used = cli_option(c, out, fn, &o, next, config, err);
        } else {
            used = short_option(c, out, fn, word, next, err);
        }
        if (used < 0)
            return -1;
        i += used;
    }
    return 0;
}

static int ignore_option(struct conf *c, void *out, size_t row, const char *value, struct err *err)
{
    (void)c, (void)out, (void)row, (void)value, (void)err;
    return 0;
}

static int store_option(struct conf *c, void *out, size_t row, const char *value, struct err *err)
{
    cleanup_free char *label =
        xasprintf("%s%s", strlen(c->rows[row].name) == 1 ? "-" : "--", c->rows[row].name);
    return conf_store(c, row, CONF_CLI, label, value, out, err);
}

static int load_all(struct conf *c, void *out, int argc, char *const *argv, struct err *err)
{
    const char *config = NULL;
    if (load_defaults(c, out, err) || walk(c, out, ignore_option, argc, argv, &config, err))
        return -1;
    if (c->help_asked)
        return 0; /* whatever the file and the environment say */
    if (!config)
        config = getenv("SAMPAN_CONFIG");
    if (config && *config && load_file(c, config, out, err))
        return -1;
    if (load_env(c, out, err))
        return -1;
    return walk(c, out, store_option, argc, argv, &config, err);
}

int conf_parse(struct conf **ret, const struct conf_row *rows, size_t n_rows, void *out, int argc,
               char *const *argv, struct err *err)
{
    return conf_parse_shared(ret, rows, n_rows, NULL, 0, out, argc, argv, err);
}

static struct conf *conf_new(const struct conf_row *rows, size_t n_rows, int argc)
{
    struct conf *c = xcalloc(1, sizeof *c);
    c->rows = rows;
    c->n_rows = n_rows;
    c->origins = xcalloc(n_rows, sizeof *c->origins);
    c->lists = xcalloc(n_rows, sizeof *c->lists);
    c->args = xcalloc((size_t)argc + 1, sizeof *c->args);
    return c;
}

int conf_parse_words(struct conf **ret, const struct conf_row *rows, size_t n_rows, void *out,
                     int argc, char *const *argv, struct err *err)
{
    struct conf *c = conf_new(rows, n_rows, argc);
    const char *config = NULL;
    if (load_defaults(c, out, err) || walk(c, out, store_option, argc, argv, &config, err)) {
        conf_free(c);
        return -1;
    }
    *ret = c;
    return 0;
}

int conf_parse_shared(struct conf **ret, const struct conf_row *rows, size_t n_rows,
                      const char *const *elsewhere, size_t n_elsewhere, void *out, int argc,
                      char *const *argv, struct err *err)
{
    struct conf *c = conf_new(rows, n_rows, argc);
    c->elsewhere = elsewhere;
    c->n_elsewhere = n_elsewhere;
    if (load_all(c, out, argc, argv, err)) {
        conf_free(c);
        return -1;
    }
    *ret = c;
    return 0;
}

void conf_free(struct conf *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->n_strings; i++)
        free(c->strings[i]);
    for (size_t i = 0; i < c->n_rows; i++) {
        free(c->lists[i].items);
        free((void *)c->lists[i].places);
    }
    free(c->strings);
    free(c->lists);
    free(c->origins);
    free(c->args);
    free(c);
}

/*
 * The options of a mount, as every process that serves it takes them up: resolved once, when it was
 * mounted, and kept in the keeper's state as words, one a line. What a configuration file, a
 * variable or the working directory says later changes nothing. Keys and passwords are not among
 * them: they come from their file or environment in each life.
 */
#include <string.h>

#include "mem.h"
#include "serve-internal.h"

#define KEPT_MAX (64u << 10)

/* A word may hold anything but NUL; a line ends at its end. */
static void add_word(struct bytes *out, const char *name, const char *value)
{
    if (name)
        bytes_addf(out, "--%s=", name);
    for (; *value; value++) {
        if (*value == '\n')
            bytes_add_str(out, "\\n");
        else if (*value == '\\')
            bytes_add_str(out, "\\\\");
        else
            bytes_add_char(out, *value);
    }
    bytes_add_char(out, '\n');
}

static char *take_word(const char *line, size_t len)
{
    char *word = xmalloc(len + 1), *to = word;
    for (size_t i = 0; i < len; i++) {
        bool escaped = line[i] == '\\' && i + 1 < len;
        i += escaped;
        *to++ = escaped && line[i] == 'n' ? '\n' : line[i];
    }
    *to = '\0';
    return word;
}

static void add_tiers(struct bytes *out, const struct owner *o)
{
    static const char *const kinds[] = {[TIER_MEM] = "mem", [TIER_SSD] = "ssd", [TIER_HDD] = "hdd"};
    for (size_t i = 0; i < o->n_tiers; i++) {
        const struct tier_conf *t = &o->tiers[i];
        cleanup_free char *dir = real_folder(t->dir);
        cleanup_free char *text =
            xasprintf("%s:%s=%llu", kinds[t->kind], dir, (unsigned long long)t->limit);
        add_word(out, "cache", text);
    }
}

/* Some may be an address as well. */
static bool is_path(const char *name, const char *value)
{
    static const char *const names[] = {"credentials", "ca-file",         "catalog",
                                        "log",         "peer-token-file", "peers"};
    if (!*value || strstr(value, "://"))
        return false;
    for (size_t i = 0; i < COUNT(names); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static void add_option(struct bytes *out, const struct conf *c, const struct conf_row *row,
                       const struct mount_options *o)
{
    bool is_text = row->type == CONF_STRING || row->type == CONF_ENUM;
    const char *text = is_text ? *(const char *const *)((const char *)o + row->offset) : "";
    if (!text || row->type == CONF_LIST || strcmp(row->name, "cache-dir") == 0)
        return; /* unset; or resolved: see add_tiers() */
    cleanup_bytes struct bytes value = {0};
    bytes_add(&value, "", 0);
    conf_print_value(c, row, o, &value);
    cleanup_free char *path = is_path(row->name, value.data) ? path_absolute(value.data) : NULL;
    add_word(out, row->name, path ? path : value.data);
}

void kept_text(const struct conf *c, const struct serve_conf *conf, struct bytes *out)
{
    cleanup_free char *dir = real_folder(conf->owner->dir);
    for (size_t i = 0; i < cmd_mount.n_rows; i++)
        add_option(out, c, &cmd_mount.rows[i], conf->options);
    add_tiers(out, conf->owner);
    bytes_add_str(out, "--\n");
    add_word(out, NULL, conf->set);
    add_word(out, NULL, conf->mountpoint);
    add_word(out, NULL, dir);
}

int kept_store(struct keeper_state *s, const struct conf *c, const struct serve_conf *conf,
               struct err *err)
{
    cleanup_bytes struct bytes options = {0}, made = {0};
    kept_text(c, conf, &options);
    owner_made_text(conf->owner, &made);
    return keeper_text_set(keeper_text(s, "options", KEPT_MAX), options.data, err) ||
                   keeper_text_set(keeper_text(s, "made", KEPT_MAX), made.data, err)
               ? -1
               : 0;
}

/* --- and back --------------------------------------------------------------------------------- */

static void add_arg(struct kept *k, char *word)
{
    k->argv = xrealloc(k->argv, ((size_t)k->argc + 2) * sizeof *k->argv);
    k->argv[k->argc++] = word;
    k->argv[k->argc] = NULL;
}

int kept_parse(struct kept *ret, const char *text, struct err *err)
{
    *ret = (struct kept){0};
    add_arg(ret, xstrdup("mount"));
    for (const char *end; (end = strchr(text, '\n')); text = end + 1)
        add_arg(ret, take_word(text, (size_t)(end - text)));
    if (conf_parse_words(&ret->conf, cmd_mount.rows, cmd_mount.n_rows, &ret->options, ret->argc,
                         ret->argv, err))
        return err_wrap(err, "take over the mount: its options");
    if (conf_n_args(ret->conf) != 3)
        return err_set(err, ERR_CORRUPT, "take over the mount: its options are not all there");
    return 0;
}

int kept_load(struct kept *ret, struct keeper_state *s, struct err *err)
{
    return kept_parse(ret, keeper_text_get(keeper_text(s, "options", KEPT_MAX)), err);
}

const char *kept_made(struct keeper_state *s)
{
    return keeper_text_get(keeper_text(s, "made", KEPT_MAX));
}

void kept_release(struct kept *k)
{
    conf_free(k->conf);
    for (int i = 0; i < k->argc; i++)
        free(k->argv[i]);
    free(k->argv);
    *k = (struct kept){0};
}

/* What the shared option rows become. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli-internal.h"
#include "mem.h"

void store_conf_of(const struct store_options *o, struct store_conf *ret)
{
    *ret = (struct store_conf){
        .endpoint = o->endpoint,
        .region = o->region,
        .credentials = o->credentials,
        .ca_file = o->ca_file,
        .proxy = o->proxy,
        .user = o->user,
        .webhdfs_port = (uint16_t)o->webhdfs_port,
        .anonymous = o->no_sign_request,
        .requester_pays = o->requester_pays,
        .no_sums = o->no_store_sums,
        .path_style = o->path_style,
    };
}

#define NAMES_MAX 40

int refuse_besides(const struct conf *c, const char *const *names, const char *why, struct err *err)
{
    struct just_store {
        struct store_options store;
    };
    static const struct conf_row of_store[] = {STORE_ROWS(just_store, store)};
    const char *taken[NAMES_MAX + 1] = {NULL};
    size_t n = 0;
    for (; *names; names++) {
        assert(n + COUNT(of_store) < NAMES_MAX);
        taken[n++] = *names;
    }
    for (size_t i = 0; i < COUNT(of_store); i++)
        taken[n++] = of_store[i].name;
    const char *name = conf_given_besides(c, taken);
    return name ? err_set(err, ERR_USAGE, "--%s: %s", name, why) : 0;
}

int refuse_of_mount(const struct conf *c, const char *const *names, const struct control_mount *m,
                    struct err *err)
{
    cleanup_free char *why =
        xasprintf("goes with a SET that is not mounted: %s has what it was mounted with (leave it "
                  "out; sampan set changes some of a mount)",
                  m->mountpoint);
    return refuse_besides(c, names, why, err);
}

/* The value of a text option; NULL: it is not given, or the command has none of this name. */
static const char *text_of(const struct command *c, const void *options, const char *name)
{
    for (size_t i = 0; i < c->n_rows; i++)
        if (strcmp(c->rows[i].name, name) == 0)
            return *(const char *const *)((const char *)options + c->rows[i].offset);
    return NULL;
}

int check_ca_file(const struct command *c, const void *options, struct err *err)
{
    const char *path = text_of(c, options, "ca-file");
    struct stat st;
    cleanup_close int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (path && (fd < 0 || fstat(fd, &st)))
        return err_sys(err, errno, "--ca-file: %s", path);
    if (path && S_ISDIR(st.st_mode))
        return err_set(err, ERR_USAGE, "--ca-file: %s: a folder (want one file, PEM)", path);
    return 0;
}

int check_log_level(const struct command *c, const struct conf *conf, const void *options,
                    struct err *err)
{
    if (conf_origin_of(conf, "log-level") != CONF_CLI)
        return 0;
    if (log_check_modules(text_of(c, options, "log-level"), err))
        return err_wrap(err, "--log-level");
    return 0;
}

int free_space_of(const char *text, double *ret_fraction, uint64_t *ret_bytes, struct err *err)
{
    *ret_fraction = 0;
    *ret_bytes = 0;
    size_t len = strlen(text);
    if (!len || text[len - 1] != '%') {
        if (conf_size(text, ret_bytes, err))
            return err_wrap(err, "--free-space");
        return 0;
    }
    char *end;
    double percent = strtod(text, &end);
    if (len == 1 || end != text + len - 1 || text[0] == '-' || !(percent >= 0 && percent < 100))
        return err_set(err, ERR_USAGE, "--free-space: \"%s\" is not a share (like 10%%)", text);
    *ret_fraction = percent / 100;
    return 0;
}

int log_file_open(struct log_file *ret, const struct log_options *o, bool to_stderr,
                  struct err *err)
{
    *ret = (struct log_file){0};
    if (log_set_levels(NULL, o->level))
        return err_set(err, ERR_USAGE,
                       "--log-level: \"%s\" is not a level (error, warn, info, debug, or "
                       "info,MODULE=debug)",
                       o->level);
    if (o->file) {
        int fd = open(o->file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
            return err_sys(err, errno, "open the log: %s", o->file);
        ret->file = fdopen(fd, "a");
    } else if (!to_stderr) {
        return 0;
    }
    enum log_format format = strcmp(o->format, "json") == 0 ? LOG_JSON : LOG_TEXT;
    ret->log = log_new(ret->file ? ret->file : stderr, LOG_INFO, format, NULL);
    log_set_levels(ret->log, o->level);
    return 0;
}

void log_file_close(struct log_file *l)
{
    log_free(l->log);
    if (l->file)
        fclose(l->file);
    *l = (struct log_file){0};
}

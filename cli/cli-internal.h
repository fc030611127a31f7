/*
 * The command line: one file a command, each a row `struct command`.
 *
 *   main.c      the life of a command: parsed, run, its error printed
 *   commands.c  the table of commands
 *   options.c   option rows that several commands share, and what they become
 *   owner.c     which folder belongs to a set; making and removing folders
 *   mounts.c    which mount is meant, and what in it
 *   kept.c      the options of a mount as every process that serves it takes them up
 *   daemon.c    a process in the background whose start is waited for
 *   interrupt.c commands that end in order when they are interrupted
 *   progress.c  how far a long operation is
 *   manual.c    help, manual pages and completion, all from the same rows
 *   cmd-X.c     the command X: its rows, its checks, one library call
 */
#ifndef SAMPAN_CLI_INTERNAL_H
#define SAMPAN_CLI_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "buf.h"
#include "conf.h"
#include "control.h"
#include "err.h"
#include "json.h"
#include "log.h"
#include "volume.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

struct command {
    const char *name;       /* "mount" */
    const char *args;       /* "SET MOUNTPOINT" */
    const char *summary;    /* one line without a full stop */
    const char *about;      /* paragraphs of the manual, separated by an empty line */
    int min_args, max_args; /* max -1: any number */
    const struct conf_row *rows;
    size_t n_rows;
    size_t options_size; /* of the struct that the rows fill */
    bool no_config;      /* SAMPAN_CONFIG is not read: what is wrong with it may be looked for */
    /* 0: done; -1: `err` says why; a positive exit code: what went wrong has been printed. */
    int (*run)(const struct conf *conf, const void *options, struct err *err);
    /* Instead of rows and run: a command that reads its words itself. */
    int (*run_raw)(int argc, char *const *argv, struct err *err);
};

extern const struct command *const commands[];
extern const size_t n_commands;
const struct command *command_find(const char *name, struct err *err);
/* Parses the words after a command's name; `options` has c->options_size zeroed bytes. */
int command_parse(const struct command *c, struct conf **ret, void *options, int argc,
                  char *const *argv, struct err *err);
/* Names variables that look like an option's, mistyped, on stderr. */
void command_say_slips(const struct command *c);

/* Adds a line, which stays one whatever the names in it hold. */
void add_one_line(struct bytes *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A line on stderr: what failed of all that a command was to do. */
void say_failure(const char *verb, const char *key, const char *why);

/* Prints `text` to stdout. -1 if it can't be written (a full disk, a closed pipe). */
int print_out(const struct bytes *text, struct err *err);

/* --- options that several commands share (options.c) ------------------------------------------ */

#define AT(type, field) offsetof(struct type, field)

struct store_options {
    const char *endpoint, *region, *credentials, *ca_file, *proxy, *user;
    int64_t webhdfs_port;
    bool no_sign_request, requester_pays, no_store_sums, path_style;
};
#define WEBHDFS_PORT "9870"
#define STORE_ROWS(type, f)                                                                     \
    {"endpoint", CONF_STRING, AT(type, f.endpoint), .arg = "URL",                               \
     .help = "Address of the store, if not AWS_ENDPOINT_URL or the store's own"},               \
        {"region", CONF_STRING, AT(type, f.region), .arg = "NAME",                              \
         .help = "Region that requests are signed for, if not AWS_REGION or the profile's"},    \
        {"credentials", CONF_STRING, AT(type, f.credentials), .arg = "FILE|DIR",                \
         .help = "Where the keys are: an AWS-style INI file, or a folder of one file a key"},   \
        {"ca-file", CONF_STRING, AT(type, f.ca_file), .arg = "FILE",                            \
         .help =                                                                                \
             "Certificate authorities (PEM) that servers are checked against, if not those of " \
             "AWS_CA_BUNDLE, SSL_CERT_FILE or the system"},                                     \
        {"proxy", CONF_STRING, AT(type, f.proxy), .arg = "URL",                                 \
         .help = "Proxy to use, if not that of HTTPS_PROXY, HTTP_PROXY and NO_PROXY"},          \
        {"webhdfs-port",                                                                        \
         CONF_INT,                                                                              \
         AT(type, f.webhdfs_port),                                                              \
         .arg = "N",                                                                            \
         .dflt = WEBHDFS_PORT,                                                                  \
         .min = 1,                                                                              \
         .max = 65535,                                                                          \
         .help = "Port of the name node's WebHDFS, for hdfs:// sets"},                          \
        {"webhdfs-user", CONF_STRING, AT(type, f.user), .arg = "NAME",                          \
         .help = "user.name of WebHDFS requests, if not HADOOP_USER_NAME or your own"},         \
        {"no-sign-request", CONF_FLAG, AT(type, f.no_sign_request),                             \
         .help = "Send no signature and look for no credentials (public buckets)"},             \
        {"requester-pays", CONF_FLAG, AT(type, f.requester_pays),                               \
         .help = "Agree to pay for requests to a requester-pays bucket"},                       \
        {"no-store-sums", CONF_FLAG, AT(type, f.no_store_sums),                                 \
         .help = "Don't ask an S3 store for the CRC that it keeps of an object"},               \
    {                                                                                           \
        "path-style", CONF_FLAG, AT(type, f.path_style),                                        \
            .help = "Put the bucket into the path even where a host name is possible"           \
    }

struct set_options {
    struct conf_list cache;
    const char *cache_dir;
    const char *free_space;
};
#define SET_ROWS(type, f)                                                                        \
    {"cache", CONF_LIST, AT(type, f.cache), .arg = "TIER:DIR=SIZE",                              \
     .help = "A tier (mem, ssd or hdd) of the cache, read and filled in the order given; "       \
             "default ssd:<cache-dir>/<set>=10GiB"},                                             \
        {"cache-dir", CONF_STRING, AT(type, f.cache_dir), .arg = "DIR",                          \
         .help = "Folder below which each set has its own; default /var/cache/sampan for root, " \
                 "~/.cache/sampan otherwise"},                                                   \
    {                                                                                            \
        "free-space", CONF_STRING, AT(type, f.free_space),                                       \
            .arg = "PERCENT|SIZE", .dflt = "10%",                                                \
            .help = "How much of a disk always stays free; a number alone is bytes"              \
    }

struct log_options {
    const char *file, *level, *format;
};
#define LOG_ROWS(type, f)                                                                            \
    {"log", CONF_STRING, AT(type, f.file), .arg = "FILE",                                            \
     .help = "Append log lines to this file"},                                                       \
        {"log-level",       CONF_STRING,                                                             \
         AT(type, f.level), .arg = "LEVEL",                                                          \
         .dflt = "info",    .help = "error, warn, info or debug; for one module: info,fetch=debug"}, \
    {                                                                                                \
        "log-format", CONF_ENUM, AT(type, f.format), .choices = "text|json", .dflt = "text",         \
                                                     .help = "Form of log lines"                     \
    }

#define JSON_ROW(type, f)                                                  \
    {                                                                      \
        "json", CONF_FLAG, AT(type, f), .help = "Print the result as JSON" \
    }
#define QUIET_ROW(type, f)                                          \
    {                                                               \
        "quiet", CONF_FLAG, AT(type, f), .help = "Show no progress" \
    }

void store_conf_of(const struct store_options *o, struct store_conf *ret);
/* Is there a file, if --ca-file names one? Over plain HTTP nobody would look. */
int check_ca_file(const struct command *c, const void *options, struct err *err);
/* Does --log-level name modules that there are? Of the command line alone: what the environment
 * says may be meant for other programs, and what is kept of a mount for another version. */
int check_log_level(const struct command *c, const struct conf *conf, const void *options,
                    struct err *err);
/* "10%" or "20GiB". */
int free_space_of(const char *text, double *ret_fraction, uint64_t *ret_bytes, struct err *err);

/* Refuses an option of the command line that is none of `names` (NULL ends them): it has no effect,
 * and `why` says with what it has one. How the store is reached is never refused: scripts give it
 * to all commands of a set alike. */
int refuse_besides(const struct conf *c, const char *const *names, const char *why,
                   struct err *err);
/* The same of a command that was given the mount `m`, whose own process does the work. */
int refuse_of_mount(const struct conf *c, const char *const *names, const struct control_mount *m,
                    struct err *err);

/* A log into a file (appended to, 0600), or into stderr where `file` is NULL and `to_stderr`; else
 * *ret is NULL: silence. */
struct log_file {
    struct log *log;
    FILE *file; /* NULL: stderr */
};
int log_file_open(struct log_file *ret, const struct log_options *o, bool to_stderr,
                  struct err *err);
void log_file_close(struct log_file *l);

/* --- folders (owner.c) ------------------------------------------------------------------------ */

/*
 * What belongs to one set on this machine: the tiers asked for and the owner's folder (catalog
 * versions, index, control socket), which is the first tier's on a disk, or else its own folder
 * below cache-dir, named after the set.
 */
struct owner {
    char *dir;
    bool for_outputs; /* set before owner_resolve(): not the folder of the same place's samples */
    struct tier_conf tiers[CACHE_MAX_TIERS];
    size_t n_tiers;
    double free_fraction;
    uint64_t free_bytes;
    char **made; /* folders that owner_make() created, outermost first */
    size_t n_made;
    struct owner_lock {
        int fd;
        bool was_empty; /* when it became ours: all that is in it now is this run's */
    } locks[CACHE_MAX_TIERS + 1];
    size_t n_locks;
    bool was_empty[CACHE_MAX_TIERS + 1]; /* after owner_make(): `dir`, then the tiers' */
};
int owner_resolve(struct owner *ret, const char *set, const struct set_options *o,
                  const struct store_conf *store, struct err *err);
/* The owner that was resolved before: its folder and its tiers (in `o`) are taken as they are. */
int owner_given(struct owner *ret, const char *dir, const struct set_options *o, struct err *err);
int owner_make(struct owner *o, struct err *err);
/* Has the file system of this folder, which need not be there yet, no room for the files that every
 * cache begins with (or one that is there goes on with)? */
bool owner_few_inodes(const char *dir, uint64_t *ret_left);
/* The folders that owner_make() created, one a line, and back: for the process that serves. */
void owner_made_text(const struct owner *o, struct bytes *ret);
void owner_made_parse(struct owner *o, const char *text);
/* After a start that was killed: what owner_unmake() would have removed there. */
void owner_clean(struct owner *o);
/* Relative paths would move with the daemon's working directory. */
char *path_absolute(const char *path);
/* Where a folder that is there lies, however it is named: "../cache" goes on to mean the same when
 * the working directory is gone. */
char *real_folder(const char *path);
/* Refuses a cache folder or a mount point (may be NULL) that lies in a local source of the set.
 * After owner_make(). */
int check_nested(const char *set, const struct store_conf *conf, const struct owner *o,
                 const char *mountpoint, struct err *err);
/* Refuses a cache folder in the mount point, and one that is given twice. After owner_make(). */
int check_cache_folders(const struct owner *o, const char *mountpoint, struct err *err);
/* Takes the folders for this process until it ends or owner_release(); refuses, naming the process
 * that has them. After a fork: the lock's holder is the one who takes it. */
int owner_lock(struct owner *o, struct err *err);
/* Does a mount have this folder now, of whatever container? (It is taken for a moment to see.) */
bool owner_in_use(const char *dir);
/* The folder below which each set has its own: `asked`, or the usual one. */
int owner_base(const char *asked, struct bytes *ret, struct err *err);
/* Nothing of a failed start stays: what came to lie in folders that were empty goes, and so do the
 * folders that owner_make() created. */
void owner_unmake(struct owner *o);
void owner_release(struct owner *o);
#define cleanup_owner CLEANUP(owner_release)
void owner_to_volume(const struct owner *o, struct volume_conf *ret);

/* "s3-bucket-train-0123456789abcdef" from a URI and what identifies the set. Pure. */
char *owner_name(const char *uri, const void *identity, size_t len);

/* --- naming mounts (mounts.c) ----------------------------------------------------------------- */

/* The absolute path of a mount point that may be dead: only its parent is looked at. */
int mount_path(const char *path, char **ret, struct err *err);
/* The registered mount that `path` lies in, its process alive. `ret_below` gets the rest of the
 * path, "" for the mount point itself. NULL: the whole mount is meant, and a path below it is
 * NOT_FOUND. */
int mount_of(const char *path, struct control_mount *ret, char **ret_below, struct err *err);
/* Is this SET a mount? 1: that one. 0: a URI, a file, or what is not there. -1: a mount whose
 * processes have ended, or what lies below a mount and is no file. */
int mount_of_set(const char *set, struct control_mount *ret, struct err *err);
/* The live mount whose owner's folder this is. */
bool mount_by_folder(const char *dir, struct control_mount *ret);
/* A user's path as one below the mount, "" for its root: absolute ones must lie in it, through
 * links or not; others are relative to it, or to this folder if that leads into the mount and the
 * mount has no such name. "" is refused: an unset variable is not everything. */
int path_in_mount(const struct control_mount *m, const char *path, char **ret, struct err *err);
static inline void cleanup_mount_fn(struct control_mount *m)
{
    control_mount_release(m);
}
#define cleanup_mount CLEANUP(cleanup_mount_fn)

/* --- daemon.c --------------------------------------------------------------------------------- */

/*
 * Splits off a process of its own session. In the parent it waits until the child calls
 * daemon_ready() or ends, and then returns 1 (ready) or -1 (`err` is the child's); a signal that
 * asks the parent to end is passed on to the child. In the child it returns 0 and *ret is the line
 * back.
 */
struct daemon_start;
int daemon_fork(struct daemon_start **ret, struct err *err);
/* The line back, for whoever is to speak in this process's place; and from what was handed on. */
int daemon_pipe(const struct daemon_start *d);
struct daemon_start *daemon_resume(int pipe);
/* Lets go of the terminal and of the working directory. */
int daemon_let_go(struct err *err);
/* Lets go, and tells the parent. -1: the parent is gone, nobody wants the daemon. */
int daemon_ready(struct daemon_start *d, struct err *err);
/* Tells the parent why not. */
void daemon_failed(struct daemon_start *d, const struct err *why);

/* --- interrupt.c ------------------------------------------------------------------------------ */

/* True once SIGINT or SIGTERM has come, so that what is half done can be taken back; a second one
 * ends the process at once. */
const atomic_bool *catch_interrupts(void);

/* --- progress.c ------------------------------------------------------------------------------- */

struct progress {
    bool quiet, tty;
    bool shown; /* a bar stands on the terminal's line */
    uint64_t began_ns, last_ns;
};
struct how_far {
    uint64_t done, total; /* things; total 0: not known */
    uint64_t bytes;       /* 0: none to show */
    double percent;       /* of the work, where things differ in size; 0: `done` of `total` */
};
void progress_init(struct progress *p, bool quiet);
void progress_show(struct progress *p, const char *what, const struct how_far *far);
void progress_end(struct progress *p); /* clears the bar */
/* A volume_progress_fn; arg is a struct progress. */
void progress_volume(void *arg, const char *what, uint64_t done, uint64_t total);
/* One line of progress, without colour or line end. Pure. */
void progress_line(struct bytes *out, const char *what, const struct how_far *far,
                   double elapsed_s);

/* --- manual.c --------------------------------------------------------------------------------- */

void manual_overview(struct bytes *out);
void manual_help(const struct command *c, struct bytes *out);
void manual_man(const struct command *c, struct bytes *out); /* NULL: sampan.1 */
int manual_completion(const char *shell, struct bytes *out, struct err *err);

/* --- cmd-status.c ----------------------------------------------------------------------------- */

/* The numbers of a status that nobody has counted. */
void status_zeros(struct json_writer *w);
/* Of one mount, in full, for people. */
void status_text(struct bytes *out, const struct json *s);
double percent_of(double part, double whole);

/* --- asking an owner (ask.c) ------------------------------------------------------------------ */

/* {"op":NAME in an open object: add fields, then ask(). */
void ask_begin(struct json_writer *w, struct bytes *request, const char *op);
/* Ends the object and sends it; sends it again if the daemon dies over it and a keeper starts the
 * next one. Only for what may be done twice. The answer may take its time; a daemon that hangs,
 * and does not answer a ping in ASK_PATIENCE_S, is not asked. */
#define ASK_PATIENCE_S 20 /* a keeper replaces a daemon that hangs after 10 s */
int ask(const struct control_mount *m, struct json_writer *w, struct bytes *request,
        control_progress_fn *progress, void *arg, struct json_doc **ret, struct err *err);
/* The same for what any daemon answers at once: no message is waited for longer. */
int ask_within(const struct control_mount *m, unsigned patience_s, struct json_writer *w,
               struct bytes *request, struct json_doc **ret, struct err *err);
int ask_ping(const struct control_mount *m, unsigned patience_s, struct json_doc **ret,
             struct err *err);
int ask_status(const struct control_mount *m, struct json_doc **ret, struct err *err);
/* What a mount shows lies where it was mounted from: a `conf` that names no address of a store gets
 * the mount's, if that was mounted with one. `ret` keeps it. */
int ask_endpoint(const struct control_mount *m, struct store_conf *conf, char **ret,
                 struct err *err);
/* Does no life serve the mount any more? (A mount that serves may be degraded, too.) */
bool status_refuses(const struct json *status);
/* A mount whose daemon is just being started is waited for, for some seconds; `m` follows. */
void ask_wait_recovered(struct control_mount *m);
/* "paths": what the words of a command name below the mount; none: no field. `below` (may be NULL)
 * is one more of them unless it is "". */
int ask_paths(struct json_writer *w, const struct control_mount *m, const char *below,
              const struct conf *conf, size_t first, struct err *err);
/* Members of answers; 0 and "" where they are absent. */
double json_num_at(const struct json *obj, const char *key);
const char *json_str_at(const struct json *obj, const char *key);
/* What clear and evict dropped; samples UINT64_MAX: not counted, files were removed whole. */
int report_dropped(uint64_t samples, uint64_t bytes, bool json, struct err *err);
/* Prints one node of an answer as a line. */
int print_json(const struct json *j, struct err *err);

#endif

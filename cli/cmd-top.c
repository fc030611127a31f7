/* top: a live view of all mounts of this machine, of one of them, or of a runtime server. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "clock.h"
#include "mem.h"
#include "top-internal.h"

#define HEADER_EVERY 20

struct top_options {
    const char *token_file, *ca_file;
    uint64_t interval;
    int64_t count;
    bool json;
};

static const struct conf_row rows[] = {
    {"interval", CONF_DURATION, AT(top_options, interval), .arg = "DUR", .dflt = "1s",
     .min = 10 * NS_PER_MS, .help = "Time between two looks"},
    {"count", CONF_INT, AT(top_options, count), .arg = "N", .dflt = "0", .min = 0, .max = INT32_MAX,
     .help = "End after so many; 0: go on until interrupted"},
    {"token-file", CONF_STRING, AT(top_options, token_file), .arg = "FILE",
     .help = "The bearer token of the runtime server"},
    {"ca-file", CONF_STRING, AT(top_options, ca_file), .arg = "FILE",
     .help = "Authorities (PEM) that signed its certificate; default: the system's"},
    JSON_ROW(top_options, json),
};

/* --- the terminal ----------------------------------------------------------------------------- */

struct screen {
    bool on;             /* stdout is a terminal, and ours */
    bool keys;           /* stdin is one as well: `q` ends */
    int signals;         /* SIGINT, SIGTERM, SIGWINCH, while it is on; else -1 */
    struct termios kept; /* how the terminal was */
    sigset_t mask;       /* and the signals */
};

static int screen_begin(struct screen *s, struct err *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGWINCH);
    s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->signals < 0)
        return err_sys(err, errno, "signalfd");
    pthread_sigmask(SIG_BLOCK, &set, &s->mask);
    s->on = true;
    if (tcgetattr(STDIN_FILENO, &s->kept) == 0) {
        struct termios raw = s->kept;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        s->keys = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
    }
    struct bytes text = {0};
    bytes_add_str(&text, "\033[?1049h\033[?25l");
    int rc = print_out(&text, err);
    bytes_release(&text);
    return rc;
}

static void screen_end(struct screen *s)
{
    if (!s->on)
        return;
    cleanup_bytes struct bytes text = {0};
    bytes_add_str(&text, "\033[?25h\033[?1049l");
    print_out(&text, NULL);
    if (s->keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &s->kept);
    pthread_sigmask(SIG_SETMASK, &s->mask, NULL);
    close(s->signals);
}

/* In place of what was there before: no line flickers. */
static int screen_show(const struct top_frame *f, struct err *err)
{
    struct winsize size = {0};
    cleanup_bytes struct bytes text = {0}, out = {0};
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    top_screen(f, size.ws_col ? size.ws_col : 80, size.ws_row ? size.ws_row : 24, &text);
    bytes_add_str(&out, "\033[H");
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] == '\n')
            bytes_add_str(&out, "\033[K\n");
        else
            bytes_add_char(&out, text.data[i]);
    }
    bytes_add_str(&out, "\033[K\033[J");
    return print_out(&out, err);
}

enum next { LOOK_AGAIN, DRAW_AGAIN, ENOUGH };

/* What the user did; *ret_signal is the signal that ends us, if one does. */
static enum next read_user(const struct screen *s, const struct pollfd *fds, int *ret_signal)
{
    struct signalfd_siginfo info;
    char key;
    if (fds[0].revents && read(s->signals, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGWINCH)
            return DRAW_AGAIN;
        *ret_signal = (int)info.ssi_signo;
        return ENOUGH;
    }
    if (fds[1].revents && (read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 'Q'))
        return ENOUGH;
    return DRAW_AGAIN;
}

/* Until the time has come, or the user wants something. */
static enum next wait_until(const struct screen *s, uint64_t when, int *ret_signal)
{
    struct pollfd fds[] = {{.fd = s->on ? s->signals : -1, .events = POLLIN},
                           {.fd = s->keys ? STDIN_FILENO : -1, .events = POLLIN}};
    for (;;) {
        uint64_t now = clock_mono_ns();
        if (now >= when)
            return LOOK_AGAIN;
        uint64_t left = when - now;
        struct timespec t = {.tv_sec = (time_t)(left / NS_PER_S),
                             .tv_nsec = (long)(left % NS_PER_S)};
        if (ppoll(fds, 2, &t, NULL) > 0)
            return read_user(s, fds, ret_signal);
    }
}

/* --- the loop --------------------------------------------------------------------------------- */

struct top {
    struct top_where where;
    const struct top_options *options;
    struct screen screen;
    struct json_doc *before, *after;
    uint64_t before_ns, after_ns;
    int64_t shown;
    int signal;
};

static int show(struct top *t, struct err *err)
{
    char title[64];
    struct top_frame f = {.title = t->where.server ? t->where.server : t->where.mount,
                          .before = json_root(t->before),
                          .after = json_root(t->after),
                          .seconds = (double)(t->after_ns - t->before_ns) / NS_PER_S};
    if (!f.title) {
        struct json mounts = json_get(&f.after, "mounts");
        size_t n = json_count(&mounts);
        snprintf(title, sizeof title, "%zu mount%s", n, n == 1 ? "" : "s");
        f.title = title;
    }
    if (t->screen.on)
        return screen_show(&f, err);
    cleanup_bytes struct bytes out = {0};
    if (t->options->json)
        top_json(&f, &out);
    else
        top_lines(&f, t->shown % HEADER_EVERY == 0, &out);
    return print_out(&out, err);
}

static int look_again(struct top *t, struct err *err)
{
    json_doc_free(t->before);
    t->before = take_ptr(&t->after);
    t->before_ns = t->after_ns;
    if (top_look(&t->where, &t->after, err))
        return -1;
    t->after_ns = clock_mono_ns();
    return 0;
}

static int loop(struct top *t, struct err *err)
{
    const struct top_options *o = t->options;
    if (top_look(&t->where, &t->after, err))
        return -1;
    t->after_ns = clock_mono_ns();
    if (!o->json && isatty(STDOUT_FILENO) && screen_begin(&t->screen, err))
        return -1;
    while (!o->count || t->shown < o->count) {
        enum next next = wait_until(&t->screen, t->after_ns + o->interval, &t->signal);
        if (next == ENOUGH)
            return 0;
        if (next == LOOK_AGAIN && look_again(t, err))
            return -1;
        if (!t->before)
            continue; /* nothing to compare with yet */
        if (show(t, err))
            return err->sys == EPIPE ? 0 : -1; /* who watched has seen enough */
        t->shown += next == LOOK_AGAIN;
    }
    return 0;
}

static int run(const struct conf *conf, const void *options, struct err *err)
{
    const struct top_options *o = options;
    const char *what = conf_n_args(conf) ? conf_arg(conf, 0) : NULL;
    struct top t = {.options = o, .screen = {.signals = -1}};
    t.where = (struct top_where){.token_file = o->token_file, .ca_file = o->ca_file};
    if (what && (strncmp(what, "http://", 7) == 0 || strncmp(what, "https://", 8) == 0))
        t.where.server = what;
    else
        t.where.mount = what;
    static const char *const of_mounts[] = {"interval", "count", "json", NULL};
    const char *idle = t.where.server ? NULL : conf_given_besides(conf, of_mounts);
    if (idle)
        return err_set(err, ERR_USAGE,
                       "--%s: goes with the URL of a runtime server (http://HOST:7716)", idle);
    signal(SIGPIPE, SIG_IGN);
    int rc = loop(&t, err);
    screen_end(&t.screen);
    json_doc_free(t.before);
    json_doc_free(t.after);
    if (t.signal)
        raise(t.signal); /* as if we had not caught it */
    return rc;
}

const struct command cmd_top = {
    .name = "top",
    .args = "[MOUNT|URL]",
    .summary = "a live view of mounts: reads by source, cache, warmup, jobs",
    .about =
        "Shows all mounts of this machine, one of them, or all that a runtime server speaks for "
        "(http://HOST:7716, with its token in --token-file) and its jobs: reads a second by where "
        "their bytes were, the share of local hits, tiers, warmups and what is left of them.\n\n"
        "On a terminal it fills the screen until `q` is pressed; elsewhere it prints a line for "
        "each mount, and with --json one object, each interval. Reads that the kernel answers from "
        "its page cache reach no one and are not counted.",
    .min_args = 0,
    .max_args = 1,
    .rows = rows,
    .n_rows = COUNT(rows),
    .options_size = sizeof(struct top_options),
    .run = run,
};

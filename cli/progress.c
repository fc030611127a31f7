/* How far a long operation is: a bar on a terminal, a plain line every five seconds otherwise. */
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli-internal.h"
#include "clock.h"

#define BAR_WIDTH      24
#define EVERY_TTY_NS   (100 * NS_PER_MS)
#define EVERY_PLAIN_NS (5 * NS_PER_S)

void progress_init(struct progress *p, bool quiet)
{
    *p = (struct progress){.quiet = quiet, .tty = isatty(STDERR_FILENO)};
    p->began_ns = p->last_ns = clock_mono_ns();
}

void progress_line(struct bytes *out, const char *what, uint64_t done, uint64_t total,
                   uint64_t bytes, double elapsed_s)
{
    char text[32];
    bytes_addf(out, "%s %llu", what, (unsigned long long)done);
    if (total)
        bytes_addf(out, " of %llu (%.0f %%)", (unsigned long long)total,
                   100.0 * (double)done / (double)total);
    if (elapsed_s <= 0)
        return;
    bytes_addf(out, ", %.0f/s", (double)done / elapsed_s);
    if (bytes) {
        conf_format_size((uint64_t)((double)bytes / elapsed_s), text);
        bytes_addf(out, ", %s/s", text);
    }
    if (total && done && done < total) {
        conf_format_duration(elapsed_s * (double)(total - done) / (double)done, text);
        bytes_addf(out, ", %s left", text);
    }
}

/* Of a line that wraps only the last part would be drawn over. */
static void cut_to_terminal(struct bytes *line)
{
    struct winsize size;
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col;
    size_t most = (known ? size.ws_col : 80u) - 1u;
    if (line->len > most) {
        line->len = most;
        line->data[most] = '\0';
    }
}

void progress_show(struct progress *p, const char *what, uint64_t done, uint64_t total,
                   uint64_t bytes)
{
    uint64_t now = clock_mono_ns();
    if (p->quiet || now - p->last_ns < (p->tty ? EVERY_TTY_NS : EVERY_PLAIN_NS))
        return;
    p->last_ns = now;
    cleanup_bytes struct bytes line = {0};
    if (p->tty && total) {
        size_t full = (size_t)(BAR_WIDTH * (double)(done < total ? done : total) / (double)total);
        for (size_t i = 0; i < BAR_WIDTH; i++)
            bytes_add_char(&line, i < full ? '#' : '.');
        bytes_add_char(&line, ' ');
    }
    progress_line(&line, what, done, total, bytes, (double)(now - p->began_ns) / NS_PER_S);
    if (p->tty) {
        cut_to_terminal(&line);
        fprintf(stderr, "\r\033[K%s", line.data);
    } else {
        fprintf(stderr, "%s\n", line.data);
    }
    fflush(stderr);
    p->shown = p->tty;
}

void progress_end(struct progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = false;
}

void progress_volume(void *arg, const char *what, uint64_t done, uint64_t total)
{
    progress_show(arg, what, done, total, 0);
}

bool progress_control(void *arg, const struct json *message)
{
    progress_show(arg, "samples", json_uint_at(message, "done"), json_uint_at(message, "total"),
                  json_uint_at(message, "bytes"));
    return true;
}

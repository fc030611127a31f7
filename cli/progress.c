/* How far a long operation is: a bar on a terminal, a plain line every five seconds otherwise. */
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli-internal.h"
#include "clock.h"

#define BAR_MOST       24
#define BAR_LEAST      5
#define EVERY_TTY_NS   (100 * NS_PER_MS)
#define EVERY_PLAIN_NS (5 * NS_PER_S)

void progress_init(struct progress *p, bool quiet)
{
    *p = (struct progress){.quiet = quiet, .tty = isatty(STDERR_FILENO)};
    p->began_ns = p->last_ns = clock_mono_ns();
}

static double percent_of_work(const struct how_far *far)
{
    if (far->percent > 0)
        return far->percent < 100 ? far->percent : 100;
    return far->total ? 100.0 * (double)far->done / (double)far->total : 0;
}

void progress_line(struct bytes *out, const char *what, const struct how_far *far, double elapsed_s)
{
    char text[32];
    double percent = percent_of_work(far);
    bytes_addf(out, "%s %llu", what, (unsigned long long)far->done);
    if (far->total)
        bytes_addf(out, " of %llu (%.0f %%)", (unsigned long long)far->total,
                   percent > 99 && percent < 100 ? 99 : percent); /* 100 is said of all alone */
    if (elapsed_s <= 0)
        return;
    bytes_addf(out, ", %.0f/s", (double)far->done / elapsed_s);
    if (far->bytes) {
        conf_format_size((uint64_t)((double)far->bytes / elapsed_s), text);
        bytes_addf(out, ", %s/s", text);
    }
    if (percent > 0 && percent < 100) {
        conf_format_duration(elapsed_s * (100 - percent) / percent, text);
        bytes_addf(out, ", %s left", text);
    }
}

/* Of a line that wraps only the last part would be drawn over. */
static size_t room_on_terminal(void)
{
    struct winsize size;
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col;
    return (known ? size.ws_col : 80u) - 1u;
}

/* The bar is as wide as the words leave room for. */
static void draw(const struct bytes *words, const struct how_far *far)
{
    cleanup_bytes struct bytes bar = {0};
    size_t room = room_on_terminal(), left = room > words->len + 1 ? room - words->len - 1 : 0;
    size_t width = left < BAR_MOST ? left : BAR_MOST;
    if (far->total && width >= BAR_LEAST) {
        size_t full = (size_t)((double)width * percent_of_work(far) / 100);
        for (size_t i = 0; i < width; i++)
            bytes_add_char(&bar, i < full ? '#' : '.');
        bytes_add_char(&bar, ' ');
    }
    fprintf(stderr, "\r\033[K%s%.*s", bar.len ? bar.data : "", (int)(room - bar.len), words->data);
}

void progress_show(struct progress *p, const char *what, const struct how_far *far)
{
    uint64_t now = clock_mono_ns();
    if (p->quiet || now - p->last_ns < (p->tty ? EVERY_TTY_NS : EVERY_PLAIN_NS))
        return;
    p->last_ns = now;
    cleanup_bytes struct bytes line = {0};
    progress_line(&line, what, far, (double)(now - p->began_ns) / NS_PER_S);
    if (p->tty)
        draw(&line, far);
    else
        fprintf(stderr, "%s\n", line.data);
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
    progress_show(arg, what, &(struct how_far){.done = done, .total = total});
}

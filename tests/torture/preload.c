/*
 * What no call to the kernel shows, changed from inside the program (LD_PRELOAD):
 *
 *   TORTURE_ALLOC=N[+]     the N-th allocation fails (with +: and all that follow).
 *                          TORTURE_REPORT=FILE gets one line at the failure: how many there were
 *   TORTURE_CLOCK=FILE     the wall clock is off by the seconds that FILE holds, read each time
 *   TORTURE_BOOT_ID=FILE   the machine's boot id is what FILE says
 *
 * Allocations are counted from the first call of main()'s program on: the loader has its own.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* --- allocations ---------------------------------------------------------------------------------
 */

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t align, size_t size);

static _Atomic unsigned long count;
static unsigned long nth;
static bool from_then_on, started;

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("TORTURE_ALLOC");
    if (text)
        nth = strtoul(text, NULL, 10);
    from_then_on = text && strchr(text, '+');
    started = text != NULL;
}

__attribute__((destructor)) static void end(void)
{
    const char *file = getenv("TORTURE_REPORT");
    char line[40];
    if (!started || !file)
        return;
    started = false;
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int n = snprintf(line, sizeof line, "%lu\n", (unsigned long)count);
    if (fd >= 0) {
        (void)!write(fd, line, (size_t)n);
        close(fd);
    }
}

static bool fails(void)
{
    if (!started)
        return false;
    unsigned long now = atomic_fetch_add(&count, 1) + 1;
    if (nth == 0 || (from_then_on ? now < nth : now != nth))
        return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
    return fails() ? NULL : __libc_realloc(p, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    return fails() ? NULL : __libc_memalign(align, size);
}

int posix_memalign(void **ret, size_t align, size_t size)
{
    void *p = fails() ? NULL : __libc_memalign(align, size);
    if (p)
        *ret = p;
    return p ? 0 : ENOMEM;
}

/* --- the clock -----------------------------------------------------------------------------------
 */

/* Read anew each time: a test writes the file while the program runs. */
static long clock_offset(void)
{
    const char *file = getenv("TORTURE_CLOCK");
    char text[32];
    long fd = file ? syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC) : -1;
    long n = fd >= 0 ? syscall(SYS_read, (int)fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        syscall(SYS_close, (int)fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0 ? strtol(text, NULL, 10) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    static int (*next)(clockid_t, struct timespec *);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "clock_gettime");
    int rc = next(clock, t);
    if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        t->tv_sec += clock_offset();
    return rc;
}

time_t time(time_t *ret)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_REALTIME, &t);
    if (ret)
        *ret = t.tv_sec;
    return t.tv_sec;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    int rc = clock_gettime(CLOCK_REALTIME, &now);
    *t = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return rc;
}

/* --- the boot ------------------------------------------------------------------------------------
 */

static const char *other_path(const char *path)
{
    const char *boot = getenv("TORTURE_BOOT_ID");
    return boot && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0 ? boot : path;
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = va_arg(ap, mode_t);
    va_end(ap);
    return (int)syscall(SYS_openat, AT_FDCWD, other_path(path), flags, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = va_arg(ap, mode_t);
    va_end(ap);
    return (int)syscall(SYS_openat, AT_FDCWD, other_path(path), flags, mode);
}

int __open64_2(const char *path, int flags);
int __open64_2(const char *path, int flags)
{
    return (int)syscall(SYS_openat, AT_FDCWD, other_path(path), flags, 0);
}

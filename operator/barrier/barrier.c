/*
 * sampan-barrier WANT HAVE: ends when both files are there and hold the same, which is not nothing.
 *
 * The init container of a job's pods: WANT is an annotation of the pod, HAVE a key of the job's
 * ConfigMap; kubelet brings both up to date, each in its own time. It looks five times a second: in
 * a pod nobody tells of such a change, for kubelet replaces the folder that the files are in.
 *
 * A program of its own, from libc alone: the images hold no shell.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TEXT_MAX (1 << 20) /* what an object of Kubernetes can hold at most */
#define LOOK_NS  (200 * 1000 * 1000)

static char want[TEXT_MAX], have[TEXT_MAX];

/* Bytes that were read; -1: it is not there, or cannot be read. */
static ssize_t read_file(const char *path, char *to)
{
    size_t n = 0;
    ssize_t got = 1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    while (got > 0 && n < TEXT_MAX) {
        got = read(fd, to + n, TEXT_MAX - n);
        n += got > 0 ? (size_t)got : 0;
    }
    close(fd);
    return got < 0 ? -1 : (ssize_t)n;
}

static bool is_open(char *const *paths)
{
    ssize_t n = read_file(paths[0], want);
    return n > 0 && read_file(paths[1], have) == n && memcmp(want, have, (size_t)n) == 0;
}

int main(int argc, char **argv)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    sigset_t end;
    if (argc != 3) {
        fputs("sampan-barrier: want two files: WANT HAVE\n", stderr);
        return 2;
    }
    /* As the first process of a container it would get no signal that it does not ask for. */
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    sigaddset(&end, SIGINT);
    sigprocmask(SIG_BLOCK, &end, NULL);
    while (!is_open(argv + 1)) {
        int sig = sigtimedwait(&end, NULL, &pause);
        if (sig > 0)
            return 128 + sig;
        if (errno != EAGAIN && errno != EINTR)
            return 1;
    }
    return 0;
}

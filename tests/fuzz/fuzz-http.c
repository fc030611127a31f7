/* The runtime server from the bytes of a client to its answer: whatever comes in over a connection,
 * the server answers with something that is HTTP, never with an error of its own, and goes on. Its
 * mount is not there, so that jobs end at once; those that reach stores, and could change
 * them, are left out.
 */
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "server.h"

#define ANSWER_MAX (4u << 20)

static struct server *server;
static char folder[] = "/dev/shm/sampan-fuzz-XXXXXX";

static void end(void)
{
    char command[128];
    server_stop(server);
    snprintf(command, sizeof command, "%s/jobs.db", folder);
    unlink(command);
    snprintf(command, sizeof command, "%s/jobs.db-wal", folder);
    unlink(command);
    snprintf(command, sizeof command, "%s/jobs.db-shm", folder);
    unlink(command);
    rmdir(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char *const mounts[] = {"/none"};
    struct err err = {0};
    (void)argc;
    (void)argv;
    if (!mkdtemp(folder))
        abort();
    setenv("SAMPAN_RUN_DIR", folder, 1);
    const struct server_conf conf = {.mounts = mounts,
                                     .n_mounts = 1,
                                     .listen = "127.0.0.1:0",
                                     .state = folder,
                                     .no_auth = true,
                                     .partitions = 1,
                                     .version = "fuzz"};
    if (server_start(&server, &conf, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        abort();
    }
    atexit(end);
    return 0;
}

static int connect_to_server(void)
{
    const struct timeval patience = {.tv_sec = 60}; /* the fuzzer has twice that */
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(server_port(server)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct linger at_once = {.l_onoff = 1};
    for (;;) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert(fd >= 0);
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once,
                   sizeof at_once); /* no port waits for its time */
        if (connect(fd, (const struct sockaddr *)(const void *)&to, sizeof to) == 0)
            return fd;
        assert(errno == EINTR); /* the fuzzer's clock has rung */
        close(fd);
    }
}

/* All that the server says until it closes; a stream of events is left at its beginning. */
static size_t take_answer(int fd, char *answer)
{
    size_t len = 0;
    for (;;) {
        ssize_t n = recv(fd, answer + len, ANSWER_MAX - len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return len;
        len += (size_t)n;
        answer[len] = '\0';
        if (strstr(answer, "text/event-stream") || len == ANSWER_MAX)
            return len;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char answer[ANSWER_MAX + 1];
    if (memmem(data, size, "sync", 4) || memmem(data, size, "rmr", 3) ||
        memmem(data, size, "\\u", 2))
        return -1;
    int fd = connect_to_server();
    for (size_t at = 0; at < size;) {
        ssize_t n = send(fd, data + at, size - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break; /* it has heard enough */
        at += (size_t)n;
    }
    shutdown(fd, SHUT_WR);
    answer[0] = '\0';
    size_t len = take_answer(fd, answer);
    close(fd);
    assert(len == 0 || strncmp(answer, "HTTP/1.", 7) == 0);
    assert(len == 0 || strncmp(answer + 8, " 500", 4) != 0);
    assert(!strstr(answer, "\r\nServer:"));
    return 0;
}

/* A small program's HTTP: its end. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleanup.h"
#include "http-serve.h"

static enum MHD_Result answer_never(void *arg, struct MHD_Connection *c, const struct http_asked *q)
{
    const int *begun = arg;
    (void)c, (void)q;
    (void)!write(*begun, "x", 1);
    pause();
    return MHD_NO;
}

/* A server in a process of its own, whose log says which port it has. */
static pid_t serve(int log_to, int begun)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const struct http_service s = {
        .address = "127.0.0.1:0", .connections = 2, .answer = answer_never, .arg = &begun};
    cleanup_file FILE *text = fdopen(log_to, "w");
    struct err err = {0};
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    signal(SIGTERM, SIG_DFL);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    _exit(http_serve(&s, &ends, log_new(text, LOG_INFO, LOG_TEXT, NULL), &err) ? 1 : 0);
}

Test(http_serve, a_second_signal_does_not_wait_for_an_answer, .timeout = 60)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    int log_ends[2], begun[2], status = 0;
    char line[512] = "", byte;
    cr_assert(pipe(log_ends) == 0 && pipe(begun) == 0);
    pid_t pid = serve(log_ends[1], begun[1]);
    for (size_t n = 0; !strchr(line, '\n') && n + 1 < sizeof line; n++)
        cr_assert_eq(read(log_ends[0], line + n, 1), 1);
    const char *port = strstr(line, "port=");
    cr_assert(port, "%s", line);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(port + 5)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    cleanup_close int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(sock, (const struct sockaddr *)&to, sizeof to), 0);
    cr_assert_eq(send(sock, request, sizeof request - 1, MSG_NOSIGNAL), sizeof request - 1);
    cr_assert_eq(read(begun[0], &byte, 1), 1);
    /* Two that come at once are one: until it has ended. */
    while (waitpid(pid, &status, WNOHANG) == 0) {
        kill(pid, SIGTERM);
        poll(NULL, 0, 10);
    }
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

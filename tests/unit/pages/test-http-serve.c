/* A small program's HTTP: bodies, the end. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
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
static pid_t serve(struct http_service s, int log_to)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    s.address = "127.0.0.1:0";
    cleanup_file FILE *text = fdopen(log_to, "w");
    struct err err = {0};
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    signal(SIGTERM, SIG_DFL);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    _exit(http_serve(&s, &ends, log_new(text, LOG_INFO, LOG_TEXT, NULL), &err) ? 1 : 0);
}

static pid_t start(const struct http_service *s, struct sockaddr_in *ret)
{
    int log_ends[2];
    char line[512] = "";
    cr_assert_eq(pipe(log_ends), 0);
    pid_t pid = serve(*s, log_ends[1]);
    for (size_t n = 0; !strchr(line, '\n') && n + 1 < sizeof line; n++)
        cr_assert_eq(read(log_ends[0], line + n, 1), 1);
    const char *port = strstr(line, "port=");
    cr_assert(port, "%s", line);
    *ret = (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)atoi(port + 5)),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static int ask(const struct sockaddr_in *to, const char *request)
{
    int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(sock, (const struct sockaddr *)to, sizeof *to), 0);
    cr_assert_eq(send(sock, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
    return sock;
}

/* The status of what is answered. */
static int answer_of(int sock)
{
    char text[] = "HTTP/1.1 xxx";
    cr_assert_eq(recv(sock, text, sizeof text - 1, MSG_WAITALL), sizeof text - 1);
    close(sock);
    return atoi(text + 9);
}

static enum MHD_Result say(struct MHD_Connection *c, unsigned status)
{
    struct MHD_Response *r =
        MHD_create_response_from_buffer(0, (char *)(uintptr_t) "", MHD_RESPMEM_PERSISTENT);
    enum MHD_Result result = MHD_queue_response(c, status, r);
    MHD_destroy_response(r);
    return result;
}

Test(http_serve, a_second_signal_does_not_wait_for_an_answer, .timeout = 60)
{
    struct sockaddr_in to;
    int begun[2], status = 0;
    char byte;
    cr_assert_eq(pipe(begun), 0);
    pid_t pid = start(
        &(struct http_service){.connections = 2, .answer = answer_never, .arg = &begun[1]}, &to);
    cleanup_close int sock = ask(&to, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    cr_assert_eq(read(begun[0], &byte, 1), 1);
    /* Two that come at once are one: until it has ended. */
    while (waitpid(pid, &status, WNOHANG) == 0) {
        kill(pid, SIGTERM);
        poll(NULL, 0, 10);
    }
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

/* The same, once the connection has ended: its room is given back then. */
static int last_answer_of(int sock)
{
    char text[1024] = "";
    cr_assert_geq(recv(sock, text, sizeof text - 1, MSG_WAITALL), 12);
    close(sock);
    return atoi(text + 9);
}

#define POST(LEN, BODY) "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " #LEN "\r\n\r\n" BODY

struct held {
    int begun, go_on;
};

/* What has a body is answered when the test says so. */
static enum MHD_Result answer_held(void *arg, struct MHD_Connection *c, const struct http_asked *q)
{
    const struct held *held = arg;
    char byte;
    if (q->no_room || q->too_large)
        return say(c, q->no_room ? 503 : 413);
    if (q->len && (write(held->begun, "x", 1) != 1 || read(held->go_on, &byte, 1) != 1))
        return MHD_NO;
    return say(c, 200);
}

Test(http_serve, bodies_together_have_a_limit, .timeout = 60)
{
    struct sockaddr_in to;
    int begun[2], go_on[2];
    char byte;
    cr_assert(pipe(begun) == 0 && pipe(go_on) == 0);
    struct held held = {begun[1], go_on[0]};
    pid_t pid = start(
        &(struct http_service){
            .connections = 8, .body_max = 8, .bodies_max = 12, .answer = answer_held, .arg = &held},
        &to);
    for (int round = 0; round < 2; round++) { /* the room is given back */
        int first = ask(&to, "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                             "Content-Length: 8\r\n\r\n12345678");
        cr_assert_eq(read(begun[0], &byte, 1), 1);
        cr_expect_eq(answer_of(ask(&to, POST(5, "12345"))), 503);
        cr_expect_eq(answer_of(ask(&to, POST(9, "123456789"))), 413);
        cr_expect_eq(answer_of(ask(&to, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")), 200);
        cr_assert_eq(write(go_on[1], "x", 1), 1);
        cr_expect_eq(last_answer_of(first), 200);
    }
    end(pid);
}

Test(http_serve, the_end_waits_for_what_is_being_answered_alone, .timeout = 60)
{
    struct sockaddr_in to;
    int begun[2], go_on[2], status = 0;
    char byte;
    cr_assert(pipe(begun) == 0 && pipe(go_on) == 0);
    struct held held = {begun[1], go_on[0]};
    pid_t pid = start(
        &(struct http_service){
            .connections = 8, .body_max = 8, .bodies_max = 99, .answer = answer_held, .arg = &held},
        &to);
    int first = ask(&to, POST(8, "12345678"));
    cr_assert_eq(read(begun[0], &byte, 1), 1);
    int waits = ask(&to, POST(8, "12345678")), idle = ask(&to, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    char head[4096] = "";
    for (size_t n = 0; !strstr(head, "\r\n\r\n") && n + 1 < sizeof head; n++)
        cr_assert_eq(recv(idle, head + n, 1, 0), 1);
    kill(pid, SIGTERM);
    cr_expect_eq(answer_of(waits), 503);
    cr_assert_eq(send(idle, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, MSG_NOSIGNAL), 27);
    cr_expect_eq(answer_of(idle), 503);
    cr_assert_eq(write(go_on[1], "x", 1), 1);
    cr_expect_eq(answer_of(first), 200);
    cr_expect_eq(waitpid(pid, &status, 0), pid);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static enum MHD_Result answer_alone(void *arg, struct MHD_Connection *c, const struct http_asked *q)
{
    atomic_int *here = arg;
    (void)q;
    bool alone = atomic_fetch_add(here, 1) == 0;
    poll(NULL, 0, 20);
    atomic_fetch_sub(here, 1);
    return say(c, alone ? 200 : 500);
}

Test(http_serve, bodies_that_are_no_larger_than_one_may_be_are_answered_at_once, .timeout = 60)
{
    struct sockaddr_in to;
    atomic_int here = 0;
    int socks[8];
    pid_t pid = start(&(struct http_service){.connections = 8,
                                             .body_max = 8,
                                             .bodies_max = 100,
                                             .answer = answer_alone,
                                             .arg = &here},
                      &to);
    for (int i = 0; i < 8; i++)
        socks[i] = ask(&to, POST(5, "12345"));
    for (int i = 0; i < 8; i++)
        cr_expect_eq(answer_of(socks[i]), 200);
    end(pid);
}

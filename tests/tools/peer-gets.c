/*
 * Asks a runtime server for samples, many in one request or one: what another machine's mount does,
 * without the mount.
 *
 *   peer-gets PORT TOKEN-FILE VERSION IDS BATCH SECONDS <LIST
 *
 * LIST has a line "ID BYTES" for each sample; they are asked for in an order that repeats itself.
 * Lengths are checked, bytes are not. Prints samples per second.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BUFFER    (16u << 20)
#define BATCH_MAX 64
#define HEAD      16u

struct sample {
    unsigned long long id, bytes;
};

static struct sample *samples;
static size_t n_samples;
static unsigned char buffer[BUFFER];

static void die(const char *what)
{
    fprintf(stderr, "peer-gets: %s\n", what);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void read_list(void)
{
    struct sample s;
    while (scanf("%llu %llu", &s.id, &s.bytes) == 2) {
        samples = realloc(samples, (n_samples + 1) * sizeof *samples);
        if (!samples)
            die("out of memory");
        samples[n_samples++] = s;
    }
    if (!n_samples)
        die("no samples");
}

static int dial(unsigned port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((unsigned short)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (sock < 0 || connect(sock, (struct sockaddr *)&at, sizeof at))
        die("the server does not answer");
    return sock;
}

static unsigned get32(const unsigned char *at)
{
    return (unsigned)at[0] | (unsigned)at[1] << 8 | (unsigned)at[2] << 16 | (unsigned)at[3] << 24;
}

/* The whole answer; returns where its body begins. */
static unsigned char *receive(int sock, size_t *ret_len)
{
    size_t got = 0, want = 0;
    unsigned char *body = NULL;
    while (!body || got < want) {
        ssize_t n = recv(sock, buffer + got, sizeof buffer - 1 - got, 0);
        if (n <= 0)
            die("the server closed the connection");
        got += (size_t)n;
        if (body)
            continue;
        buffer[got] = '\0';
        char *end = strstr((char *)buffer, "\r\n\r\n");
        const char *len = end ? strcasestr((char *)buffer, "content-length:") : NULL;
        if (strncmp((char *)buffer, "HTTP/1.1 200", 12) != 0)
            die((char *)buffer);
        if (!len)
            continue;
        body = (unsigned char *)end + 4;
        want = (size_t)(body - buffer) + strtoull(len + 15, NULL, 10);
    }
    *ret_len = got - (size_t)(body - buffer);
    return body;
}

static void check(const unsigned char *body, size_t len, const struct sample *const *asked,
                  size_t n)
{
    size_t at = HEAD;
    for (size_t i = 0; i < n; i++) {
        if (at + HEAD > len || get32(body + at) != 0 || get32(body + at + 4) != asked[i]->bytes)
            die("a sample is not there");
        at += HEAD + asked[i]->bytes;
    }
    if (at != len)
        die("the answer has another length");
}

static void ask(int sock, const char *head, const char *about, size_t batch, size_t *next)
{
    static char text[16384], request[20480];
    const struct sample *asked[BATCH_MAX];
    int len = snprintf(text, sizeof text, "{%s,\"samples\":[", about);
    for (size_t i = 0; i < batch; i++) {
        *next = (*next * 5 + 1237) % n_samples;
        asked[i] = &samples[*next];
        len += snprintf(text + len, sizeof text - (size_t)len,
                        "%s{\"id\":%llu,\"offset\":0,\"length\":%llu}", i ? "," : "", asked[i]->id,
                        asked[i]->bytes);
    }
    len += snprintf(text + len, sizeof text - (size_t)len, "]}");
    int n = snprintf(request, sizeof request, "%sContent-Length: %d\r\n\r\n%s", head, len, text);
    if (send(sock, request, (size_t)n, MSG_NOSIGNAL) != n)
        die("the request does not go out");
    size_t got;
    unsigned char *body = receive(sock, &got);
    check(body, got, asked, batch);
}

int main(int argc, char **argv)
{
    char token[256] = "", head[1024], about[256];
    if (argc != 7)
        die("want PORT TOKEN-FILE VERSION IDS BATCH SECONDS");
    size_t batch = strtoul(argv[5], NULL, 10), next = 1;
    double seconds = strtod(argv[6], NULL);
    FILE *f = fopen(argv[2], "re");
    if (!f || fscanf(f, "%255s", token) != 1 || batch < 1 || batch > BATCH_MAX)
        die("no token, or a batch that is none");
    fclose(f);
    read_list();
    snprintf(about, sizeof about, "\"version\":\"%s\",\"ids\":\"%s\"", argv[3], argv[4]);
    snprintf(head, sizeof head,
             "POST /v1/samples:batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n", token);
    int sock = dial((unsigned)strtoul(argv[1], NULL, 10));
    ask(sock, head, about, batch, &next); /* the first one opens what later ones find open */
    double began = now();
    size_t n = 0;
    for (; now() - began < seconds; n += batch)
        ask(sock, head, about, batch, &next);
    printf("%.1f\n", (double)n / (now() - began));
    close(sock);
    free(samples);
    return 0;
}

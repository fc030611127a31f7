#include "kernel.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "keeper.h"
#include "mem.h"

static void status_text(void *arg, struct bytes *json)
{
    (void)arg;
    bytes_add_str(json, "{\"state\":\"ready\"}");
}

static struct wire_init_in init_request(bool can_resend)
{
    return (struct wire_init_in){.major = WIRE_MAJOR,
                                 .minor = 45,
                                 .flags = UINT32_MAX,
                                 .flags2 = can_resend ? WIRE2_HAS_RESEND : 0};
}

struct keeper_state *kernel_state(bool can_resend)
{
    struct wire_init_in in = init_request(can_resend);
    struct keeper_state *s;

    cr_assert_eq(keeper_state_own(OUTFUSE_DESKS, OUTFUSE_DESK_BYTES, &s, NULL), 0);
    memcpy(s->init, &in, sizeof(in));
    s->init_len = sizeof(in);
    return s;
}

void kernel_state_free(struct keeper_state *s)
{
    keeper_state_unmap(s);
}

static void start(struct kernel *k, struct stage *s, struct keeper_state *state)
{
    int socks[2];
    int size = 4 << 20;
    struct err err = {0};

    memset(k, 0, sizeof(*k));
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks), 0);
    setsockopt(socks[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    setsockopt(socks[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    k->sock = socks[0];
    k->dev = socks[1];
    k->unique = 2;
    k->stage = s;
    k->state = state;
    struct outfuse_conf conf = {.mountpoint = "/nowhere/at/all",
                                .source = "s3://bucket/outputs",
                                .uid = 7,
                                .gid = 8,
                                .dev = socks[1],
                                .state = state,
                                .refuse = !s,
                                .status = status_text};
    cr_assert_eq(outfuse_mount(&k->front, s, &conf, &err), 0, "%s", err.msg);
}

void kernel_start(struct kernel *k, struct stage *s)
{
    struct wire_init_in in = init_request(true);
    struct err err = {0};

    start(k, s, NULL);
    kernel_send(k, WIRE_INIT, 0, &in, sizeof(in), NULL, 0);
    cr_assert_eq(outfuse_start(k->front, &err), 0, "%s", err.msg);
    cr_assert_eq(kernel_take(k), 0);
}

void kernel_adopt(struct kernel *k, struct stage *s, struct keeper_state *state)
{
    struct err err = {0};

    start(k, s, state);
    cr_assert_eq(outfuse_start(k->front, &err), 0, "%s", err.msg);
}

void kernel_stop(struct kernel *k)
{
    outfuse_free(k->front);
    close(k->sock);
}

struct kernel *kernel_new(struct stage *s)
{
    struct kernel *k = xcalloc(1, sizeof(*k));

    kernel_start(k, s);
    return k;
}

void kernel_free(struct kernel *k)
{
    fake_let_go(k->stage);
    kernel_stop(k);
    fake_free(k->stage);
    free(k);
}

static void lay(struct wire_in_header *h, uint64_t unique, uint32_t opcode, uint64_t node,
                const void *fixed, size_t fixed_len, const void *rest, size_t rest_len)
{
    *h = (struct wire_in_header){.len = (uint32_t)(sizeof(*h) + fixed_len + rest_len),
                                 .opcode = opcode,
                                 .unique = unique,
                                 .nodeid = node,
                                 .uid = 1,
                                 .gid = 2,
                                 .pid = 3};
    if (fixed_len)
        memcpy(h + 1, fixed, fixed_len);
    if (rest_len)
        memcpy((char *)(h + 1) + fixed_len, rest, rest_len);
}

void kernel_lay(struct keeper_request *at, uint64_t unique, uint32_t opcode, uint64_t node,
                const void *fixed, size_t fixed_len, const void *rest, size_t rest_len)
{
    lay((void *)at, unique, opcode, node, fixed, fixed_len, rest, rest_len);
}

uint64_t kernel_send(struct kernel *k, uint32_t opcode, uint64_t node, const void *fixed,
                     size_t fixed_len, const void *rest, size_t rest_len)
{
    struct wire_in_header *h = xmalloc(sizeof(*h) + fixed_len + rest_len);

    k->unique += 2;
    lay(h, k->unique, opcode, node, fixed, fixed_len, rest, rest_len);
    if (k->pid)
        h->pid = k->pid;
    cr_assert_eq(send(k->sock, h, h->len, 0), (ssize_t)h->len);
    free(h);
    return k->unique;
}

int kernel_take(struct kernel *k)
{
    struct iovec iov[2] = {{.iov_base = &k->head, .iov_len = sizeof(k->head)},
                           {.iov_base = k->body, .iov_len = sizeof(k->body)}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
    ssize_t n = recvmsg(k->sock, &msg, 0);

    cr_assert(n >= (ssize_t)sizeof(k->head), "no answer: %zd", n);
    cr_assert_eq(k->head.len, n);
    k->body_len = (size_t)n - sizeof(k->head);
    return k->head.error;
}

bool kernel_silent(struct kernel *k)
{
    struct pollfd p = {.fd = k->sock, .events = POLLIN};

    return poll(&p, 1, 0) == 0;
}

int kernel_ask(struct kernel *k, uint32_t opcode, uint64_t node, const void *fixed,
               size_t fixed_len, const void *rest, size_t rest_len)
{
    uint64_t unique = kernel_send(k, opcode, node, fixed, fixed_len, rest, rest_len);
    int rc = kernel_take(k);

    cr_assert_eq(k->head.unique, unique);
    return rc;
}

int kernel_ask_name(struct kernel *k, uint32_t opcode, uint64_t node, const void *fixed,
                    size_t fixed_len, const char *name)
{
    return kernel_ask(k, opcode, node, fixed, fixed_len, name, strlen(name) + 1);
}

uint64_t kernel_create(struct kernel *k, const char *name, uint64_t *ret_fh)
{
    struct wire_create_in in = {.flags = O_CREAT | O_RDWR, .mode = S_IFREG | 0644};
    struct wire_create_out out;

    cr_assert_eq(kernel_ask_name(k, WIRE_CREATE, STAGE_ROOT, &in, sizeof(in), name), 0);
    cr_assert_eq(k->body_len, sizeof(out));
    memcpy(&out, k->body, sizeof(out));
    *ret_fh = out.open.fh;
    return out.entry.nodeid;
}

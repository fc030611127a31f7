/* Finding an owner's socket, and one call over it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

#include "clock.h"
#include "control.h"
#include "mem.h"

#define CALL_OFF_S      10 /* so long what was called off is listened to */
#define WANTED_EVERY_MS 300

/*
 * A socket address holds 107 bytes, a cache folder's path often more. So the folder is opened and
 * the address goes through /proc/self/fd: `ret_dir` must stay open until the call that uses `ret`.
 */
static int address_of(const char *path, struct sockaddr_un *ret, int *ret_dir, struct err *err)
{
    const char *slash = strrchr(path, '/');
    cleanup_free char *folder =
        slash ? xstrndup(path, slash == path ? 1 : (size_t)(slash - path)) : xstrdup(".");
    const char *name = slash ? slash + 1 : path;
    cleanup_close int dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 && errno == ENOENT)
        return err_set(err, ERR_NOT_FOUND,
                       "control socket: %s: its folder is gone (was the cache folder removed? "
                       "unmount and mount again)",
                       path);
    if (dir < 0)
        return err_sys(err, errno, "control socket: %s", path);
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(ret->sun_path, sizeof ret->sun_path, "/proc/self/fd/%d/%s", dir, name);
    if (n < 0 || (size_t)n >= sizeof ret->sun_path)
        return err_set(err, ERR_USAGE, "control socket: %s: the file's name is too long", path);
    *ret_dir = take_fd(&dir);
    return 0;
}

/* Neither the connection nor any message is waited for longer; 0: for ever. */
static int connect_within(const char *socket_path, unsigned patience_s, int *ret_sock,
                          struct err *err)
{
    const struct timeval patience = {.tv_sec = patience_s};
    struct sockaddr_un address;
    cleanup_close int dir = -1;
    if (address_of(socket_path, &address, &dir, err))
        return -1;
    cleanup_close int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock < 0 || setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) ||
        setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience))
        return err_sys(err, errno, "control socket");
    if (connect(sock, (struct sockaddr *)&address, sizeof address)) {
        int e = errno;
        if (e == ECONNREFUSED || e == ENOENT)
            return err_set(err, ERR_NOT_FOUND,
                           "control socket: %s: nobody serves it (the mount's daemon is gone: "
                           "unmount and mount again)",
                           socket_path);
        return err_sys(err, e, "control socket: %s", socket_path);
    }
    *ret_sock = take_fd(&sock);
    return 0;
}

int control_connect(const char *socket_path, int *ret_sock, struct err *err)
{
    return connect_within(socket_path, 0, ret_sock, err);
}

static int bind_at(int sock, const struct sockaddr_un *address, const char *path, struct err *err)
{
    if (bind(sock, (const struct sockaddr *)address, sizeof *address) == 0)
        return 0;
    int code = errno;
    if (code == EPERM || code == EOPNOTSUPP)
        return err_set(err, ERR_LIMIT,
                       "control socket: %s: its file system takes no sockets (give a cache folder "
                       "on a local disk)",
                       path);
    return err_sys(err, code, "control socket: %s", path);
}

/* In the place of whatever is there. */
static int listen_at(const char *socket_path, mode_t mode, int *ret_sock, struct err *err)
{
    struct sockaddr_un address;
    cleanup_close int dir = -1;
    if (address_of(socket_path, &address, &dir, err))
        return -1;
    unlink(address.sun_path);
    cleanup_close int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return err_sys(err, errno, "control socket");
    /* The mode of the new file comes from the socket's own mode before bind(). */
    if (fchmod(sock, mode))
        return err_sys(err, errno, "control socket: %s", socket_path);
    if (bind_at(sock, &address, socket_path, err))
        return -1;
    if (chmod(address.sun_path, mode) || listen(sock, 64))
        return err_sys(err, errno, "control socket: %s", socket_path);
    *ret_sock = take_fd(&sock);
    return 0;
}

int control_listen_direct(const char *dir, int *ret_sock, struct err *err)
{
    cleanup_free char *path = xasprintf("%s/" CONTROL_DIRECT_SOCKET, dir);
    return listen_at(path, 0666, ret_sock, err);
}

int control_listen(const char *socket_path, int *ret_sock, struct err *err)
{
    int other = -1;
    if (control_connect(socket_path, &other, NULL) == 0) {
        close(other);
        return err_set(err, ERR_LIMIT, "control socket: %s: " MOUNT_SAYS_SERVED, socket_path);
    }
    return listen_at(socket_path, 0600, ret_sock, err);
}

static enum err_class class_named(const char *name)
{
    for (int c = ERR_NONE + 1; c <= ERR_BUG; c++)
        if (strcmp(name, err_class_name((enum err_class)c)) == 0)
            return (enum err_class)c;
    return ERR_FAILED;
}

/* The final message: its refusal becomes an error of the class it names. */
static int final_answer(const struct json *root, struct err *err)
{
    bool ok;
    if (json_bool(root, "ok", &ok, err))
        return -1;
    if (ok)
        return 0;
    const char *class, *text;
    if (json_str_or(root, "class", "failed", &class, err) ||
        json_str_or(root, "error", "refused without a reason", &text, err))
        return -1;
    return err_set(err, class_named(class), "%s", text);
}

int control_answer(const struct bytes *msg, struct json_doc **ret, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    if (json_parse(&doc, "answer of the mount's daemon", msg->data ? msg->data : "", msg->len, err))
        return -1;
    struct json root = json_root(doc);
    if (final_answer(&root, err))
        return -1;
    *ret = take_ptr(&doc);
    return 0;
}

struct call {
    control_progress_fn *progress;
    void *arg;
    struct json_doc **ret;
    int *ret_fd;
    unsigned patience_s; /* 0: for ever */
    bool cut;            /* the other side ended before it had answered */
};

/* The request is to end: we say so by saying no more, and listen to how far it came until it has.
 * (Closing alone would look like our own death.) */
static int call_off(int sock, const struct call *call, struct err *err)
{
    const struct timeval patience = {.tv_sec = CALL_OFF_S};
    cleanup_bytes struct bytes msg = {0};
    uint64_t until = clock_mono_ns() + CALL_OFF_S * NS_PER_S;
    bool over = shutdown(sock, SHUT_WR) ||
                setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    while (!over && clock_mono_ns() < until) {
        cleanup_close int fd = -1;
        cleanup_json struct json_doc *doc = NULL;
        over = control_recv(sock, &msg, &fd, NULL) ||
               json_parse(&doc, "answer", msg.data ? msg.data : "", msg.len, NULL);
        if (!over) {
            struct json root = json_root(doc), step = json_get(&root, "progress");
            over = !step.node;
            if (!over)
                call->progress(call->arg, &step);
        }
    }
    return err_set(err, ERR_CANCELLED, "interrupted");
}

/* Waits for the next message; false: meanwhile nobody wants it any more. */
static bool wait_wanted(int sock, const struct call *call)
{
    struct pollfd p = {.fd = sock, .events = POLLIN};
    while (call->progress && poll(&p, 1, WANTED_EVERY_MS) <= 0)
        if (!call->progress(call->arg, NULL))
            return false;
    return true;
}

static int read_answer(int sock, struct call *call, struct err *err)
{
    cleanup_bytes struct bytes msg = {0};
    for (;;) {
        if (!wait_wanted(sock, call))
            return call_off(sock, call, err);
        cleanup_close int fd = -1;
        struct err why = {0};
        if (control_recv(sock, &msg, &fd, &why)) {
            call->cut = why.sys != EAGAIN;
            if (err)
                *err = why;
            return -1;
        }
        cleanup_json struct json_doc *doc = NULL;
        if (json_parse(&doc, "answer of the mount's daemon", msg.data ? msg.data : "", msg.len,
                       err))
            return -1;
        struct json root = json_root(doc);
        struct json step = json_get(&root, "progress");
        if (step.node) {
            if (call->progress && !call->progress(call->arg, &step))
                return call_off(sock, call, err);
            continue;
        }
        if (final_answer(&root, err))
            return -1;
        if (call->ret)
            *call->ret = take_ptr(&doc);
        if (call->ret_fd)
            *call->ret_fd = take_fd(&fd);
        return 0;
    }
}

static int call_once(const char *socket_path, const struct bytes *request, struct call *call,
                     struct err *err)
{
    cleanup_close int sock = -1;
    struct err unsent = {0};
    call->cut = false;
    if (connect_within(socket_path, call->patience_s, &sock, err))
        return -1;
    if (control_send(sock, request, -1, &unsent) == 0)
        return read_answer(sock, call, err);
    /* Whoever is turned away is told why, and the socket is closed before all was asked. */
    if (unsent.sys == EPIPE || unsent.sys == ECONNRESET) {
        struct err said = {0};
        int rc = read_answer(sock, call, &said);
        if (rc && !call->cut && err)
            *err = said;
        if (!call->cut)
            return rc;
    }
    call->cut = unsent.sys != EAGAIN;
    if (err)
        *err = unsent;
    return -1;
}

static int call_again(const char *socket_path, const struct bytes *request, unsigned tries,
                      struct call *call, struct err *err)
{
    for (;;) {
        int result = call_once(socket_path, request, call, err);
        if (!result || !call->cut || request->len > CONTROL_MAX || tries-- <= 1)
            return result;
    }
}

int control_call_again(const char *socket_path, const struct bytes *request, unsigned tries,
                       control_progress_fn *progress, void *arg, struct json_doc **ret, int *ret_fd,
                       struct err *err)
{
    struct call call = {.progress = progress, .arg = arg, .ret = ret, .ret_fd = ret_fd};
    return call_again(socket_path, request, tries, &call, err);
}

int control_ask(const char *socket_path, const struct bytes *request, unsigned tries,
                unsigned patience_s, struct json_doc **ret, struct err *err)
{
    struct call call = {.ret = ret, .patience_s = patience_s};
    struct err why = {0};
    if (call_again(socket_path, request, tries, &call, &why) == 0)
        return 0;
    if (why.sys == EAGAIN)
        return err_set(err, ERR_TRANSIENT,
                       "control socket: %s: no answer within %u s (the mount's daemon hangs: "
                       "kill it, and unmount or mount again)",
                       socket_path, patience_s);
    if (err)
        *err = why;
    return -1;
}

int control_call(const char *socket_path, const struct bytes *request,
                 control_progress_fn *progress, void *arg, struct json_doc **ret, int *ret_fd,
                 struct err *err)
{
    return control_call_again(socket_path, request, 1, progress, arg, ret, ret_fd, err);
}

/*
 * The owner's side of the control socket: accepting. One thread accepts, one thread serves each
 * connection; a client that isn't the owner's user (or root) is turned away, and so is one too
 * many. Guests (serve-internal.h) may be anybody who may read the mount.
 */
#define LOG_MODULE "control"
#include "serve-internal.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "log.h"
#include "mem.h"

#define SEND_TIMEOUT_S 30  /* a client that reads no answer for so long is gone */
#define NO_ROOM_MS     100 /* out of descriptors: whoever comes waits that long */

bool server_stopping(struct control_server *s)
{
    ACQUIRE(&s->lock);
    return s->stop;
}

static void connection_free(struct connection *c)
{
    close(c->sock);
    free(c);
}

/* Joins the threads that are at their end; with `all`, waits for every one. */
static void reap(struct control_server *s, bool all)
{
    struct connection *done = NULL;
    {
        ACQUIRE(&s->lock);
        for (struct connection **at = &s->connections; *at;) {
            struct connection *c = *at;
            if (!all && !atomic_load(&c->finished)) {
                at = &c->next;
                continue;
            }
            *at = c->next;
            c->next = done;
            done = c;
            s->n_connections[c->guest]--;
        }
    }
    while (done) {
        struct connection *next = done->next;
        pthread_join(done->thread, NULL);
        connection_free(done);
        done = next;
    }
}

static int check_peer(const struct control_server *s, int sock, bool guest, struct err *err)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &len))
        return err_sys(err, errno, "who is asking");
    if (peer.uid != geteuid() && peer.uid != 0 && !(guest && s->conf.direct_for_all))
        return err_set(err, ERR_DENIED, "control socket: user %u may not ask a daemon of user %u",
                       peer.uid, geteuid());
    return 0;
}

static void refuse(int sock, const struct err *why)
{
    cleanup_bytes struct bytes text = {0};
    refusal_text(&text, why);
    control_send(sock, &text, -1, NULL);
    close(sock);
}

static int start_connection(struct control_server *s, int sock, bool guest, struct err *err)
{
    struct connection *c = xcalloc(1, sizeof *c);
    c->server = s;
    c->sock = sock;
    c->guest = guest;
    ACQUIRE(&s->lock);
    if (s->n_connections[guest] >= CONNECTIONS_MAX) {
        free(c);
        return err_set(err, ERR_LIMIT, "control socket: %d clients are served already (try later)",
                       CONNECTIONS_MAX);
    }
    int error = thread_start(&c->thread, "control", connection_main, c);
    if (error) {
        free(c);
        err_thread(err, error, "control socket: start a thread");
        err->class = ERR_LIMIT; /* a refusal, as that above: its owner is well */
        return -1;
    }
    c->next = s->connections;
    s->connections = c;
    s->n_connections[guest]++;
    return 0;
}

static void accept_one(struct control_server *s, int listener)
{
    bool guest = listener == s->guests;
    int sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (sock < 0) {
        struct pollfd end = {.fd = s->wake, .events = POLLIN};
        if (errno != ECONNABORTED && errno != EINTR)
            poll(&end, 1, NO_ROOM_MS); /* the listener stays readable: or this would be a spin */
        return;
    }
    struct timeval timeout = {.tv_sec = SEND_TIMEOUT_S};
    struct err err = {0};
    setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    reap(s, false);
    if (check_peer(s, sock, guest, &err) || start_connection(s, sock, guest, &err)) {
        log_warn(s->conf.log, "turned a client away: %s", err.msg);
        refuse(sock, &err);
    }
}

static void *accept_main(void *arg)
{
    struct control_server *s = arg;
    struct pollfd fds[3] = {{.fd = s->listener, .events = POLLIN},
                            {.fd = s->guests, .events = POLLIN},
                            {.fd = s->wake, .events = POLLIN}};
    while (!server_stopping(s)) {
        if (poll(fds, 3, -1) <= 0)
            continue;
        for (size_t i = 0; i < 2; i++)
            if (fds[i].revents & POLLIN)
                accept_one(s, fds[i].fd);
    }
    return NULL;
}

static void server_release(struct control_server *s)
{
    if (s->listener >= 0)
        close(s->listener);
    if (s->guests >= 0)
        close(s->guests);
    if (s->wake >= 0)
        close(s->wake);
    lock_destroy(&s->settings);
    lock_destroy(&s->lock);
    free(s->path);
    free(s);
}

int control_serve(struct control_server **ret, const struct control_server_conf *conf,
                  struct err *err)
{
    struct control_server *s = xcalloc(1, sizeof *s);
    s->conf = *conf;
    s->path = xstrdup(conf->socket_path);
    s->listener = s->guests = -1;
    lock_init(&s->settings, RANK_SETTINGS, "settings");
    lock_init(&s->lock, RANK_CONTROL, "control");
    s->wake = eventfd(0, EFD_CLOEXEC);
    s->kept_settings = keeper_text(conf->state, "settings", SETTINGS_MAX);
    s->kept_warmup = keeper_text(conf->state, "warmup", CONTROL_MAX);
    if (conf->listener > 0)
        s->listener = conf->listener;
    int rc = 0;
    if (s->wake < 0)
        rc = err_sys(err, errno, "control socket");
    else if (s->listener < 0)
        rc = control_listen(conf->socket_path, &s->listener, err);
    if (!rc && conf->direct_dir)
        rc = control_listen_direct(conf->direct_dir, &s->guests, err);
    if (rc) {
        server_release(s);
        return -1;
    }
    *ret = s;
    return 0;
}

int control_server_listener(const struct control_server *s)
{
    return s->listener;
}

int control_resume(struct control_server *s, struct err *err)
{
    struct err why = {0};
    int rc = settings_resume(s, err);
    if (warmup_resume(s, &why) && !rc) {
        *err = why;
        rc = -1;
    }
    return rc;
}

int control_accept(struct control_server *s, struct frontend *frontend, struct err *err)
{
    s->frontend = frontend;
    int error = thread_start(&s->thread, "control-accept", accept_main, s);
    if (error)
        return err_thread(err, error, "control socket: start a thread");
    s->accepting = true;
    return 0;
}

void control_server_free(struct control_server *s)
{
    if (!s)
        return;
    unlink(s->path); /* nobody comes any more */
    {
        ACQUIRE(&s->lock);
        s->stop = true;
        for (struct connection *c = s->connections; c; c = c->next)
            shutdown(c->sock, SHUT_RDWR);
    }
    eventfd_write(s->wake, 1);
    if (s->accepting)
        pthread_join(s->thread, NULL);
    {
        /* One that was accepted at the very end. */
        ACQUIRE(&s->lock);
        for (struct connection *c = s->connections; c; c = c->next)
            shutdown(c->sock, SHUT_RDWR);
    }
    reap(s, true);
    background_end(s);
    server_release(s);
}

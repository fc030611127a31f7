#include "http-clients.h"

#include <sys/socket.h>

#include "clock.h"
#include "mem.h"

#define LOOK_NS      (NS_PER_S / 4)
#define ANSWER_TIMES 15 /* so many request times for taking the answer */

/* A connection, from accept to close; on the list under the lock. */
struct http_client {
    struct http_client *next, **at;
    struct http_clients *all;
    int fd;
    uint64_t deadline_ns; /* UINT64_MAX: none */
};

static struct http_client *client_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static void add_client(struct http_clients *cs, struct MHD_Connection *connection, void **ret)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (!info)
        return;
    struct http_client *client = xcalloc(1, sizeof *client);
    client->all = cs;
    client->fd = info->connect_fd;
    client->deadline_ns = clock_mono_ns() + cs->request_ns;
    *ret = client;
    ACQUIRE(&cs->lock);
    client->next = cs->first;
    client->at = &cs->first;
    if (client->next)
        client->next->at = &client->next;
    cs->first = client;
    cs->n++;
    cond_signal(&cs->wake);
}

static void remove_client(struct http_client *client)
{
    struct http_clients *cs = client->all;
    {
        ACQUIRE(&cs->lock);
        *client->at = client->next;
        if (client->next)
            client->next->at = client->at;
        cs->n--;
    }
    free(client);
}

void http_clients_on_connection(void *cls, struct MHD_Connection *connection, void **context,
                                enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        add_client(cls, connection, context);
    } else if (*context) {
        remove_client(*context);
        *context = NULL;
    }
}

void http_clients_step(struct MHD_Connection *connection, enum http_step step)
{
    struct http_client *client = client_of(connection);
    if (!client)
        return;
    struct http_clients *cs = client->all;
    const uint64_t most[] = {
        [STEP_REQUEST] = cs->request_ns,
        [STEP_ANSWER] = cs->request_ns * ANSWER_TIMES,
    };
    ACQUIRE(&cs->lock);
    client->deadline_ns = step == STEP_UNLIMITED ? UINT64_MAX : clock_mono_ns() + most[step];
}

static void end_late_ones(struct http_clients *cs)
{
    uint64_t now = clock_mono_ns();
    for (struct http_client *client = cs->first; client; client = client->next) {
        if (client->deadline_ns > now)
            continue;
        client->deadline_ns = UINT64_MAX;
        shutdown(client->fd, SHUT_RDWR);
        counter_add(&cs->timed_out, 1);
    }
}

static void *watch(void *arg)
{
    struct http_clients *cs = arg;
    ACQUIRE(&cs->lock);
    while (!cs->stopping) {
        if (cs->first)
            cond_wait_for(&cs->wake, &cs->lock, LOOK_NS);
        else
            cond_wait(&cs->wake, &cs->lock);
        end_late_ones(cs);
    }
    return NULL;
}

void http_clients_init(struct http_clients *cs)
{
    lock_init(&cs->lock, RANK_METRICS, "http clients");
    cond_init(&cs->wake);
}

int http_clients_start(struct http_clients *cs, uint64_t request_ns, struct err *err)
{
    const uint64_t most = UINT64_MAX / 2 / ANSWER_TIMES;
    cs->request_ns = request_ns < most ? request_ns : most;
    int e = thread_start(&cs->watcher, "http-clients", watch, cs);
    if (e)
        return err_thread(err, e, "start a thread");
    cs->watches = true;
    return 0;
}

void http_clients_destroy(struct http_clients *cs)
{
    if (cs->watches) {
        {
            ACQUIRE(&cs->lock);
            cs->stopping = true;
            cond_broadcast(&cs->wake);
        }
        pthread_join(cs->watcher, NULL);
    }
    cond_destroy(&cs->wake);
    lock_destroy(&cs->lock);
}

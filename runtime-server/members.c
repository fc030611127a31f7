/*
 * Who of the cluster answers: a few threads that ask each address in turn.
 *
 * An address is asked when its time has come (`due_ns`) by whichever thread is free; while it is
 * `busy`, only that thread may free it. One of them at a time also reads the list again.
 */
#define LOG_MODULE "members"
#include "members.h"

#include <string.h>
#include <sys/stat.h>

#include "clock.h"
#include "http.h"
#include "mem.h"
#include "sync.h"

#define THREADS       4
#define ASK_EVERY_NS  NS_PER_S
#define DOUBT_NS      (200 * NS_PER_MS) /* between two looks that somebody's doubt asked for */
#define FILE_LOOK_NS  NS_PER_S
#define NAMES_LOOK_NS (5 * NS_PER_S)
#define CONNECT_NS    (2 * NS_PER_S)
#define ASK_NS        (4 * NS_PER_S)
#define CALL_NS       (15 * NS_PER_S)
#define LOST_AFTER    2 /* failures in a row */
#define ANSWER_MAX    (64u << 20)

struct address {
    struct address *next;
    char *url;
    int hint;    /* the number that its place in the list says; -1: none */
    int ordinal; /* the number that it says; -1: it has not spoken yet */
    char instance[MEMBERS_INSTANCE];
    enum member_state state;
    unsigned failures;
    uint64_t since_ns, asked_ns, due_ns;
    bool busy;    /* a thread asks it: nobody else may free it */
    bool gone;    /* the list has it no more: freed by that thread */
    bool doubted; /* asked for again while it was busy */
    char *why;
};

struct members {
    struct members_conf conf;
    char *peers;
    bool service;
    uint64_t began_ns;
    struct lock lock;
    struct cond news;
    /* below: guarded by the lock */
    struct address *addresses;
    bool stop, reading; /* reading: one thread reads the list */
    uint64_t read_due_ns;
    struct timespec file_at;
    off_t file_size;
    ino_t file_ino;   /* 0: to be read again, whatever it looks like */
    bool list_failed; /* said once */
    pthread_t threads[THREADS];
    unsigned n_threads;
};

/* --- the list --------------------------------------------------------------------------------- */

static void address_free(struct address *a)
{
    free(a->url);
    free(a->why);
    free(a);
}

static struct address *address_new(const char *url)
{
    struct address *a = xcalloc(1, sizeof *a);
    a->url = xstrdup(url);
    a->why = xstrdup("");
    a->ordinal = -1;
    a->since_ns = clock_mono_ns();
    return a;
}

static struct address *find_url(const struct members *m, const char *url)
{
    for (struct address *a = m->addresses; a; a = a->next)
        if (strcmp(a->url, url) == 0)
            return a;
    return NULL;
}

/* Lock held. Those that stay keep what is known of them; of the others each goes now, or when its
 * thread is done with it. */
static void take_list(struct members *m, const struct member_list *list)
{
    bool in_order = list->n == m->conf.partitions && !list->service;
    for (struct address *a = m->addresses; a; a = a->next)
        a->gone = true;
    for (size_t i = 0; i < list->n; i++) {
        struct address *a = find_url(m, list->urls[i]);
        if (!a) {
            a = address_new(list->urls[i]);
            a->next = m->addresses;
            m->addresses = a;
        }
        a->gone = false;
        a->hint = in_order ? (int)i : -1;
    }
    for (struct address **at = &m->addresses; *at;) {
        struct address *a = *at;
        if (a->gone && !a->busy) {
            *at = a->next;
            address_free(a);
        } else {
            at = &a->next;
        }
    }
    m->service = list->service;
}

/* Has the file changed? One that cannot be looked at has not. */
static bool file_is_new(struct members *m)
{
    struct stat st;
    if (stat(m->peers, &st))
        return false;
    bool same = st.st_mtim.tv_sec == m->file_at.tv_sec &&
                st.st_mtim.tv_nsec == m->file_at.tv_nsec && st.st_size == m->file_size &&
                st.st_ino == m->file_ino;
    m->file_at = st.st_mtim;
    m->file_size = st.st_size;
    m->file_ino = st.st_ino;
    return !same;
}

/* Lock held; dropped while the list is read. A list that cannot be read changes nothing, and is
 * read again: what was in the way may pass without a change of the file. So may the addresses of a
 * service's name. */
static void read_again(struct members *m)
{
    struct err err = {0};
    cleanup_member_list struct member_list list = {0};
    bool file = members_is_file(m->peers);
    if (file && !m->service && !file_is_new(m)) {
        m->read_due_ns = clock_mono_ns() + FILE_LOOK_NS;
        return;
    }
    m->reading = true;
    lock_drop(&m->lock);
    int rc = members_read(m->peers, m->conf.partitions, &list, &err);
    lock_take(&m->lock);
    m->reading = false;
    if (rc == 0)
        take_list(m, &list);
    else if (!m->list_failed)
        log_warn(m->conf.log, "the list of servers stays as it was: %s", err.msg);
    if (rc)
        m->file_ino = 0;
    m->read_due_ns = clock_mono_ns() + (m->service ? NAMES_LOOK_NS : FILE_LOOK_NS);
    m->list_failed = rc != 0;
    cond_broadcast(&m->news);
}

/* A fixed list is never read again. */
static bool list_moves(const struct members *m)
{
    return members_is_file(m->peers) || m->service;
}

/* --- asking ----------------------------------------------------------------------------------- */

int member_request(const struct member_peer *to, const char *method, const char *path,
                   const struct bytes *body, uint64_t timeout_ns, struct member_answer *ret,
                   struct err *err)
{
    /* No proxy stands between servers of a cluster. */
    const struct http_peer peer = {
        .ca_file = to->ca_file, .proxy = "", .connect_timeout_ns = CONNECT_NS};
    cleanup_http_req struct http_req req;
    struct http_answer head;
    http_req_init(&req, strcmp(method, "POST") == 0     ? HTTP_POST
                        : strcmp(method, "DELETE") == 0 ? HTTP_DELETE
                                                        : HTTP_GET);
    bytes_addf(&req.url, "%s%s", to->url, path);
    http_header(&req, MEMBERS_RELAYED, "1");
    if (body) {
        req.body = body->data;
        req.body_len = body->len;
        http_header(&req, "Content-Type", "application/json");
    }
    if (to->token && *to->token)
        http_header(&req, "Authorization", "Bearer %s", to->token);
    if (http_do(&req, &peer, timeout_ns, ANSWER_MAX, &head, &ret->body, err))
        return -1;
    ret->status = (unsigned)head.status;
    return 0;
}

static int request(const struct members *m, const char *url, const char *method, const char *path,
                   const struct bytes *body, uint64_t timeout_ns, struct member_answer *ret,
                   struct err *err)
{
    cleanup_secret struct secret token = {0};
    m->conf.token(m->conf.arg, &token);
    const struct member_peer to = {url, m->conf.ca_file, token.text};
    return member_request(&to, method, path, body, timeout_ns, ret, err);
}

struct said {
    int64_t ordinal, partitions;
    char instance[MEMBERS_INSTANCE];
};

static int read_identity(const struct member_answer *a, struct said *ret, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    const char *instance;
    if (a->status == 401)
        return err_set(err, ERR_DENIED,
                       "it refuses our token (do all servers have the same --token-file?)");
    if (a->status != 200)
        return err_set(err, ERR_FAILED, "it answers with status %u (is it a runtime server?)",
                       a->status);
    if (json_parse(&doc, "identity", a->body.data, a->body.len, err))
        return -1;
    struct json root = json_root(doc);
    if (json_int(&root, "ordinal", 0, 65535, &ret->ordinal, err) ||
        json_int(&root, "partitions", 1, 65536, &ret->partitions, err) ||
        json_str(&root, "instance", &instance, err))
        return -1;
    snprintf(ret->instance, sizeof ret->instance, "%s", instance);
    return 0;
}

static int ask_identity(const struct members *m, const char *url, struct said *ret, struct err *err)
{
    struct member_answer answer = {0};
    int rc = request(m, url, "GET", "/v1/identity", NULL, ASK_NS, &answer, err);
    if (!rc)
        rc = read_identity(&answer, ret, err);
    bytes_release(&answer.body);
    if (!rc && ret->partitions != m->conf.partitions)
        rc = err_set(err, ERR_FAILED, "it counts %lld partitions, this server %u (--partitions)",
                     (long long)ret->partitions, m->conf.partitions);
    if (!rc && ret->ordinal == m->conf.ordinal && strcmp(ret->instance, m->conf.instance) != 0)
        rc = err_set(err, ERR_FAILED, "it says that it is server %u, as this one is (--ordinal)",
                     m->conf.ordinal);
    return rc;
}

/* Lock held. */
static void set_state(struct members *m, struct address *a, enum member_state state,
                      const char *why)
{
    if (strcmp(a->why, why) != 0) {
        free(a->why);
        a->why = xstrdup(why);
    }
    if (a->state == state)
        return;
    bool was_lost = a->state == MEMBER_LOST;
    a->state = state;
    a->since_ns = clock_mono_ns();
    if (state == MEMBER_LOST)
        log_warn(m->conf.log, "%s is lost: %s", a->url, why);
    else
        log_info(m->conf.log, "%s is server %d%s", a->url, a->ordinal, was_lost ? " again" : "");
}

/* Lock held: what one answer means. */
static void judge(struct members *m, struct address *a, int rc, const struct said *said,
                  const struct err *why)
{
    if (rc == 0) {
        a->failures = 0;
        a->ordinal = (int)said->ordinal;
        memcpy(a->instance, said->instance, sizeof a->instance);
        set_state(m, a, MEMBER_OK, "");
        return;
    }
    a->failures++;
    if (a->state != MEMBER_OK || a->failures >= LOST_AFTER || why->class != ERR_TRANSIENT)
        set_state(m, a, MEMBER_LOST, why->msg);
}

static uint64_t pause_of(const struct members *m, const struct address *a)
{
    uint64_t many = (uint64_t)m->conf.partitions * NS_PER_S / 16;
    uint64_t pause = many > ASK_EVERY_NS ? many : ASK_EVERY_NS;
    return a->doubted || (a->failures == 1 && a->state == MEMBER_OK) ? DOUBT_NS : pause;
}

/* Lock held; dropped while it is asked. */
static void ask(struct members *m, struct address *a)
{
    struct said said = {0};
    struct err err = {0};
    a->busy = true;
    a->doubted = false;
    lock_drop(&m->lock);
    int rc = ask_identity(m, a->url, &said, &err);
    lock_take(&m->lock);
    a->busy = false;
    if (!a->gone) {
        judge(m, a, rc, &said, &err);
        a->asked_ns = clock_mono_ns();
        a->due_ns = a->asked_ns + pause_of(m, a);
        cond_broadcast(&m->news);
        return;
    }
    struct address **at = &m->addresses;
    while (*at != a)
        at = &(*at)->next;
    *at = a->next;
    address_free(a);
}

static struct address *next_due(const struct members *m, uint64_t *ret_due)
{
    struct address *first = NULL;
    for (struct address *a = m->addresses; a; a = a->next)
        if (!a->busy && !a->gone && (!first || a->due_ns < first->due_ns))
            first = a;
    *ret_due = first ? first->due_ns : UINT64_MAX;
    return first;
}

static void *members_main(void *arg)
{
    struct members *m = arg;
    ACQUIRE(&m->lock);
    while (!m->stop) {
        uint64_t now = clock_mono_ns(), due;
        struct address *a = next_due(m, &due);
        bool may_read = list_moves(m) && !m->reading;
        if (may_read && m->read_due_ns <= now) {
            read_again(m);
            continue;
        }
        if (a && due <= now) {
            ask(m, a);
            continue;
        }
        due = may_read && m->read_due_ns < due ? m->read_due_ns : due;
        if (due == UINT64_MAX)
            cond_wait(&m->news, &m->lock);
        else
            cond_wait_for(&m->news, &m->lock, due - now);
    }
    return NULL;
}

/* --- what is known ---------------------------------------------------------------------------- */

/* Lock held. The best address of a server: one that answers, one that did, one that might. */
static const struct address *address_of(const struct members *m, unsigned ordinal)
{
    const struct address *best = NULL;
    int best_rank = 0;
    for (const struct address *a = m->addresses; a; a = a->next) {
        int rank = a->gone                                     ? 0
                   : a->ordinal == (int)ordinal                ? a->state == MEMBER_OK ? 3 : 2
                   : a->ordinal < 0 && a->hint == (int)ordinal ? 1
                                                               : 0;
        if (rank > best_rank) {
            best = a;
            best_rank = rank;
        }
    }
    return best;
}

enum member_state members_state(struct members *m, unsigned ordinal, struct bytes *ret_url,
                                struct bytes *ret_why)
{
    ACQUIRE(&m->lock);
    const struct address *a = address_of(m, ordinal);
    bool self = ordinal == m->conf.ordinal;
    if (ret_url) {
        bytes_clear(ret_url);
        bytes_add_str(ret_url, a ? a->url : "");
    }
    if (ret_why) {
        bytes_clear(ret_why);
        bytes_add_str(ret_why, self       ? ""
                               : a        ? a->why
                               : m->peers ? "no address that was named has answered as this server"
                                          : "no address is known (give --peers)");
    }
    return self ? MEMBER_OK : a ? a->state : MEMBER_UNKNOWN;
}

/* Somebody failed to reach it, or reached it: it is asked at once. */
static void members_doubt(struct members *m, unsigned ordinal)
{
    ACQUIRE(&m->lock);
    uint64_t now = clock_mono_ns();
    for (struct address *a = m->addresses; a; a = a->next) {
        if (a->ordinal != (int)ordinal && (a->ordinal >= 0 || a->hint != (int)ordinal))
            continue;
        uint64_t soon = a->asked_ns + DOUBT_NS > now ? a->asked_ns + DOUBT_NS : now;
        a->doubted = a->busy;
        if (a->due_ns > soon)
            a->due_ns = soon;
    }
    cond_broadcast(&m->news);
}

void members_write(struct members *m, struct json_writer *w)
{
    static const char *const names[] = {
        [MEMBER_UNKNOWN] = "unknown", [MEMBER_OK] = "ok", [MEMBER_LOST] = "lost"};
    uint64_t now = clock_mono_ns();
    jw_object(w, NULL);
    jw_uint(w, "partitions", m->conf.partitions);
    jw_uint(w, "ordinal", m->conf.ordinal);
    jw_array(w, "members");
    for (unsigned k = 0; k < m->conf.partitions; k++) {
        cleanup_bytes struct bytes url = {0}, why = {0};
        cleanup_free char *partition = xasprintf("%u/%u", k, m->conf.partitions);
        enum member_state state = members_state(m, k, &url, &why);
        uint64_t since = m->began_ns;
        {
            ACQUIRE(&m->lock);
            const struct address *a = address_of(m, k);
            if (a && k != m->conf.ordinal)
                since = a->since_ns;
        }
        jw_object(w, NULL);
        jw_uint(w, "ordinal", k);
        jw_str(w, "url", url.data ? url.data : "");
        jw_str(w, "state", names[state]);
        jw_num(w, "since_s", now > since ? (double)(now - since) / NS_PER_S : 0);
        jw_str(w, "partition", partition);
        jw_str(w, "why", why.data ? why.data : "");
        jw_end(w);
    }
    jw_end(w);
    jw_end(w);
}

int members_call(struct members *m, unsigned ordinal, const char *method, const char *path,
                 const struct bytes *body, struct member_answer *ret, struct err *err)
{
    cleanup_bytes struct bytes url = {0}, why = {0};
    members_state(m, ordinal, &url, &why);
    if (!url.len)
        return err_set(err, ERR_TRANSIENT, "server %u: %s", ordinal, why.data);
    if (request(m, url.data, method, path, body, CALL_NS, ret, err)) {
        members_doubt(m, ordinal);
        return err_wrap(err, "server %u (%s)", ordinal, url.data);
    }
    return 0;
}

bool members_are_several(const struct members *m)
{
    return m->peers && m->conf.partitions > 1;
}

unsigned members_partitions(const struct members *m)
{
    return m->conf.partitions;
}

/* --- life ------------------------------------------------------------------------------------- */

static int check_conf(const struct members_conf *conf, struct err *err)
{
    if (conf->ordinal >= conf->partitions)
        return err_set(err, ERR_USAGE, "--ordinal %u: want 0 to %u (--partitions %u)",
                       conf->ordinal, conf->partitions - 1, conf->partitions);
    return 0;
}

/* The first list: a wrong one is refused; names that cannot be resolved yet may be later. */
static int first_list(struct members *m, struct err *err)
{
    cleanup_member_list struct member_list list = {0};
    struct err why = {0};
    if (members_is_file(m->peers))
        file_is_new(m);
    if (members_read(m->peers, m->conf.partitions, &list, &why) == 0) {
        take_list(m, &list);
        return 0;
    }
    if (why.class != ERR_TRANSIENT) {
        err_set(err, why.class, "--peers: %s", why.msg);
        return -1;
    }
    m->service = true;
    return 0;
}

static int start_threads(struct members *m, struct err *err)
{
    unsigned want = m->conf.partitions < THREADS ? m->conf.partitions : THREADS;
    while (m->n_threads < want) {
        int e = thread_start(&m->threads[m->n_threads], "members", members_main, m);
        if (e)
            return err_thread(err, e, "start a thread");
        m->n_threads++;
    }
    return 0;
}

int members_open(struct members **ret, const struct members_conf *conf, struct err *err)
{
    if (check_conf(conf, err))
        return -1;
    struct members *m = xcalloc(1, sizeof *m);
    m->conf = *conf;
    m->peers = conf->peers ? xstrdup(conf->peers) : NULL;
    m->began_ns = clock_mono_ns();
    lock_init(&m->lock, RANK_CONTROL, "members");
    cond_init(&m->news);
    int rc = m->peers ? first_list(m, err) : 0;
    if (!rc && m->peers)
        rc = start_threads(m, err);
    if (rc) {
        members_close(m);
        return -1;
    }
    *ret = m;
    return 0;
}

void members_close(struct members *m)
{
    if (!m)
        return;
    {
        ACQUIRE(&m->lock);
        m->stop = true;
        cond_broadcast(&m->news);
    }
    for (unsigned i = 0; i < m->n_threads; i++)
        pthread_join(m->threads[i], NULL);
    while (m->addresses) {
        struct address *next = m->addresses->next;
        address_free(m->addresses);
        m->addresses = next;
    }
    cond_destroy(&m->news);
    lock_destroy(&m->lock);
    free(m->peers);
    free(m);
}

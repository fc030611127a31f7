/* The thread that asks the mount's owner where samples lie, and whether that still holds. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "control.h"
#include "direct-ask-internal.h"
#include "loader-internal.h"
#include "mem.h"
#include "walk.h"

#define ASK_MAX  64
#define LOOK_NS  (10 * 1000000000ull) /* leases are looked at so often, a lost owner … */
#define RETRY_NS (1000000000ull)      /* … is looked for so often */
#define MAP_STEP ((size_t)256 << 20)  /* a pack that is still written may grow to this */

/* --- one request ------------------------------------------------------------------------------ */

struct answer {
    struct json_doc *doc;
    int fds[CONTROL_FDS_MAX];
    size_t n_fds;
};

static void answer_release(struct answer *a)
{
    for (size_t i = 0; i < a->n_fds; i++)
        if (a->fds[i] >= 0)
            close(a->fds[i]);
    json_doc_free(a->doc);
}
#define cleanup_answer CLEANUP(answer_release)

static int ask(struct direct *d, const struct bytes *request, struct answer *ret, struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    int sock;
    {
        ACQUIRE(&d->lock);
        sock = d->sock; /* closed by this thread alone */
    }
    if (control_send(sock, request, -1, err) ||
        control_recv_fds(sock, &text, ret->fds, CONTROL_FDS_MAX, &ret->n_fds, err))
        return -1;
    return control_answer(&text, &ret->doc, err);
}

/* Which version the ids of the mount belong to. */
static int ask_version(struct direct *d, struct err *err)
{
    cleanup_bytes struct bytes request = {0};
    cleanup_answer struct answer a = {0};
    const char *version, *ids;
    bytes_add_str(&request, "{\"op\":\"catalog\"}");
    if (ask(d, &request, &a, err))
        return -1;
    struct json root = json_root(a.doc);
    if (json_str(&root, "version", &version, err) || json_str(&root, "ids", &ids, err))
        return -1;
    free(d->version);
    free(d->ids);
    d->version = xstrdup(version);
    d->ids = xstrdup(ids);
    return 0;
}

/* --- packs ------------------------------------------------------------------------------------ */

static uint32_t find_pack(const struct direct *d, const struct stat *st)
{
    for (uint32_t i = 1; i < PACKS_MAX; i++)
        if (d->packs[i].map && d->packs[i].dev == st->st_dev && d->packs[i].ino == st->st_ino &&
            (size_t)st->st_size <= d->packs[i].size)
            return i;
    return PLACE_UNKNOWN;
}

static void give_back(struct direct *d, uint64_t lease)
{
    bytes_addf(&d->give_back, "%s%" PRIu64, d->give_back.len ? "," : "", lease);
}

/* The pack of a descriptor; one that is mapped already is not mapped, and leased, twice. */
static uint32_t take_pack(struct direct *d, int fd, uint64_t lease)
{
    struct stat st;
    uint32_t at = fstat(fd, &st) ? PACKS_MAX : find_pack(d, &st);
    if (at == PLACE_UNKNOWN)
        for (at = 1; at < PACKS_MAX && d->packs[at].map; at++)
            ;
    else if (at < PACKS_MAX) {
        give_back(d, lease);
        return at;
    }
    size_t size = at < PACKS_MAX ? ((size_t)st.st_size / MAP_STEP + 1) * MAP_STEP : 0;
    void *map = size ? mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (map == MAP_FAILED) {
        give_back(d, lease);
        return PLACE_UNKNOWN;
    }
    d->packs[at] = (struct pack){map, size, st.st_dev, st.st_ino, lease};
    return at;
}

static int take_packs(struct direct *d, const struct answer *a, uint32_t *packs, struct err *err)
{
    struct json root = json_root(a->doc), leases = json_get(&root, "leases");
    if (json_want_array(&leases, err))
        return -1;
    if (json_count(&leases) != a->n_fds)
        return err_set(err, ERR_BUG, "share: %zu files for %zu leases", a->n_fds,
                       json_count(&leases));
    for (size_t i = 0; i < a->n_fds; i++) {
        struct json one = json_at(&leases, i);
        int64_t lease;
        if (json_as_int(&one, 0, INT64_MAX, &lease, err))
            return -1;
        packs[i] = take_pack(d, a->fds[i], (uint64_t)lease);
    }
    return 0;
}

/* --- places ----------------------------------------------------------------------------------- */

struct asking {
    struct direct *d;
    size_t numbers[ASK_MAX];
    uint64_t ids[ASK_MAX];
    size_t n;
    uint32_t packs[CONTROL_FDS_MAX];
    size_t n_packs;
    uint64_t found;
};

/* Only samples that lie in one piece are read directly. */
static int take_place(struct asking *q, const struct json *sample, struct place *p, struct err *err)
{
    struct json parts = json_get(sample, "parts"), part = json_at(&parts, 0);
    int64_t v[3], len, crc;
    static const char *const names[] = {"file", "offset", "length"};
    if (json_int(sample, "length", 0, UINT32_MAX, &len, err) ||
        json_int(sample, "crc", 0, UINT32_MAX, &crc, err))
        return -1;
    if (len == 0 || json_count(&parts) != 1) {
        atomic_store(&p->pack, PLACE_NEVER);
        return 0;
    }
    for (size_t i = 0; i < 3; i++) {
        struct json one = json_at(&part, i);
        if (json_as_int(&one, 0, INT64_MAX / 2, &v[i], err))
            return err_wrap(err, "%s", names[i]);
    }
    if ((size_t)v[0] >= q->n_packs || v[2] != len)
        return err_set(err, ERR_BUG, "share: a part that is none of its sample's");
    uint32_t pack = q->packs[v[0]];
    if (pack == PLACE_UNKNOWN || (uint64_t)v[1] + (uint64_t)len > q->d->packs[pack].size)
        return 0;
    p->len = (uint32_t)len;
    p->crc = (uint32_t)crc;
    p->offset = (uint64_t)v[1];
    atomic_store_explicit(&p->checked, false, memory_order_relaxed);
    atomic_store(&p->pack, pack);
    q->found++;
    return 0;
}

/* How many of the samples are dealt with: one answer promises so many bytes at most. */
static int take_samples(struct asking *q, const struct answer *a, size_t *ret_taken,
                        struct err *err)
{
    struct json root = json_root(a->doc), samples = json_get(&root, "samples");
    if (json_want_array(&samples, err))
        return -1;
    size_t n = json_count(&samples), i;
    for (i = 0; i < n && i < q->n; i++) {
        struct json one = json_at(&samples, i);
        struct place *p = &q->d->places[q->numbers[i]];
        const char *status;
        if (json_str(&one, "status", &status, err))
            return -1;
        if (strcmp(status, "error") == 0 && i > 0)
            break;
        if (strcmp(status, "error") == 0)
            atomic_store(&p->pack, PLACE_NEVER);
        else if (strcmp(status, "here") == 0 && take_place(q, &one, p, err))
            return -1;
    }
    *ret_taken = i;
    return 0;
}

static int ask_places(struct asking *q, size_t *ret_taken, struct err *err)
{
    struct direct *d = q->d;
    cleanup_bytes struct bytes request = {0};
    cleanup_answer struct answer a = {0};
    bytes_addf(&request,
               "{\"op\":\"share\",\"version\":\"%s\",\"ids\":\"%s\",\"packs\":true,\"return\":[%s],"
               "\"samples\":[",
               d->version, d->ids, d->give_back.len ? d->give_back.data : "");
    for (size_t i = 0; i < q->n; i++)
        bytes_addf(&request, "%s{\"id\":%" PRIu64 "}", i ? "," : "", q->ids[i]);
    bytes_add_str(&request, "]}");
    bytes_clear(&d->give_back);
    if (ask(d, &request, &a, err) || take_packs(d, &a, q->packs, err))
        return -1;
    q->n_packs = a.n_fds;
    return take_samples(q, &a, ret_taken, err);
}

static bool stopping(struct direct *d)
{
    ACQUIRE(&d->lock);
    return d->stop;
}

/* Its id is its inode number; 0: it is not there. */
static uint64_t id_of(const struct direct *d, size_t number)
{
    uint64_t id = file_list_inode(d->files, number);
    struct stat st;
    if (!id && fstatat(d->dir, file_list_get(d->files, number), &st, 0) == 0)
        id = st.st_ino;
    return id;
}

static void gather(struct asking *q, size_t *at)
{
    struct direct *d = q->d;
    for (; *at < d->n && q->n < ASK_MAX; (*at)++) {
        if (atomic_load_explicit(&d->places[*at].pack, memory_order_relaxed) != PLACE_UNKNOWN)
            continue;
        q->numbers[q->n] = *at;
        q->ids[q->n] = id_of(d, *at);
        q->n += q->ids[q->n] != 0;
    }
}

static int ask_all(struct direct *d, struct err *err)
{
    for (size_t at = 0; at < d->n && !stopping(d);) {
        struct asking q = {.d = d};
        size_t taken = 0;
        gather(&q, &at);
        if (!q.n)
            break;
        int rc = ask_places(&q, &taken, err);
        {
            ACQUIRE(&d->lock);
            d->known += q.found;
        }
        if (rc)
            return -1;
        if (taken < q.n)
            at = q.numbers[taken];
    }
    return 0;
}

/* --- leases ----------------------------------------------------------------------------------- */

static int check_lease(struct direct *d, uint32_t pack, struct err *err)
{
    cleanup_bytes struct bytes request = {0};
    cleanup_answer struct answer a = {0};
    bool valid;
    bytes_addf(&request, "{\"op\":\"extent-check\",\"lease\":%" PRIu64 "}", d->packs[pack].lease);
    if (ask(d, &request, &a, err))
        return -1;
    struct json root = json_root(a.doc);
    if (json_bool(&root, "valid", &valid, err))
        return -1;
    if (!valid) {
        pack_forget(d, pack);
        ACQUIRE(&d->lock);
        d->revoked++;
    }
    return 0;
}

static int check_leases(struct direct *d, struct err *err)
{
    for (uint32_t i = 1; i < PACKS_MAX && !stopping(d); i++)
        if (d->packs[i].map && check_lease(d, i, err))
            return -1;
    return 0;
}

/* --- the thread ------------------------------------------------------------------------------- */

static void note_why(struct direct *d, const struct err *why)
{
    ACQUIRE(&d->lock);
    snprintf(d->why, sizeof d->why, "%.*s", (int)sizeof d->why - 1, why ? why->msg : "");
}

static void disconnect(struct direct *d)
{
    for (uint32_t i = 1; i < PACKS_MAX; i++)
        if (d->packs[i].map)
            pack_forget(d, i);
    bytes_clear(&d->give_back);
    ACQUIRE(&d->lock);
    if (d->sock >= 0)
        close(d->sock);
    d->sock = -1;
}

static int connect_owner(struct direct *d, struct err *err)
{
    int sock;
    if (control_connect(d->socket, &sock, err))
        return -1;
    {
        ACQUIRE(&d->lock);
        d->sock = sock;
        if (d->stop)
            shutdown(sock, SHUT_RDWR);
    }
    return ask_version(d, err);
}

static void tell_epoch(struct direct *d)
{
    uint64_t epoch;
    {
        ACQUIRE(&d->lock);
        if (!d->tell)
            return;
        d->tell = false;
        d->telling = true;
        epoch = d->epoch;
    }
    struct err why = {0};
    int rc = mount_tell_epoch(d->dir, epoch, &why);
    ACQUIRE(&d->lock);
    d->telling = false;
    d->tell_failed |= rc != 0; /* the next one is the caller's, who says why */
    cond_broadcast(&d->asked);
}

/* Everything was asked for. True: an epoch has begun; false: it is time to look at the leases. */
static bool wait_for_epoch(struct direct *d)
{
    ACQUIRE(&d->lock);
    d->asked_all = true;
    cond_broadcast(&d->asked);
    if (!d->epoch_began && !d->tell && !d->stop)
        cond_wait_for(&d->wake, &d->lock, LOOK_NS);
    bool began = d->epoch_began;
    d->epoch_began = false;
    return began;
}

/* As long as the owner answers. */
static int follow(struct direct *d, struct err *err)
{
    if (connect_owner(d, err))
        return -1;
    for (bool look = true; !stopping(d); look = wait_for_epoch(d)) {
        if (look && ask_all(d, err))
            return -1;
        note_why(d, NULL);
        tell_epoch(d);
        if (check_leases(d, err))
            return -1;
    }
    return 0;
}

static void *ask_main(void *arg)
{
    struct direct *d = arg;
    while (!stopping(d)) {
        struct err why = {0};
        int rc = follow(d, &why);
        disconnect(d);
        if (rc)
            note_why(d, &why);
        ACQUIRE(&d->lock);
        d->asked_all = true;
        cond_broadcast(&d->asked);
        if (!d->stop)
            cond_wait_for(&d->wake, &d->lock, RETRY_NS);
    }
    return NULL;
}

/* --- from outside ----------------------------------------------------------------------------- */

/* The socket that a mount shows to those who see nothing else of the machine. It lies in the
 * mount's root, which is the last folder above `real` of the same file system. NULL: none. */
static char *find_shown(const struct direct *d, const char *real)
{
    static const char socket[] = "/.sampan/direct/" CONTROL_DIRECT_SOCKET;
    cleanup_free char *root = xstrdup(real);
    struct stat mine, above, st;
    if (fstat(d->dir, &mine))
        return NULL;
    for (char *slash; (slash = strrchr(root, '/')) && slash != root; *slash = '\0') {
        cleanup_free char *parent = xstrndup(root, (size_t)(slash - root));
        if (stat(parent, &above) || above.st_dev != mine.st_dev)
            break;
    }
    cleanup_free char *path = xasprintf("%s%s", root, socket);
    return stat(path, &st) == 0 && S_ISSOCK(st.st_mode) ? take_ptr(&path) : NULL;
}

/* A folder below the mount's root will do; ids of another mount below it would not. */
static int find_owner(struct direct *d, const char *dir, struct err *err)
{
    struct control_mount m;
    cleanup_free char *real = realpath(dir, NULL);
    struct stat mount, mine;
    if (!real)
        return err_sys(err, errno, "find %s", dir);
    d->socket = find_shown(d, real);
    if (d->socket)
        return 0;
    if (control_find(real, &m, err))
        return -1;
    int rc = 0;
    if (stat(m.mountpoint, &mount) || fstat(d->dir, &mine) || mount.st_dev != mine.st_dev)
        rc = err_set(err, ERR_NOT_FOUND, "%s lies below a mounted set, not in it", dir);
    else
        d->socket = xstrdup(m.socket);
    control_mount_release(&m);
    return rc;
}

int direct_open(struct direct **ret, const char *dir, int dir_fd, const struct file_list *files,
                bool verify_always, struct err *err)
{
    struct direct *d = xcalloc(1, sizeof *d);
    d->files = files;
    d->n = files->n;
    d->dir = dir_fd;
    d->sock = -1;
    d->verify_always = verify_always;
    struct err why = {0};
    lock_init(&d->lock, RANK_AHEAD, "direct");
    cond_init(&d->wake);
    cond_init(&d->asked);
    int rc = find_owner(d, dir, &why) || connect_owner(d, &why) ? -1 : 0;
    disconnect(d);
    d->places = xcalloc(d->n ? d->n : 1, sizeof *d->places);
    int error = rc ? 0 : thread_start(&d->thread, "load-direct", ask_main, d);
    if (error)
        rc = err_thread(&why, error, "start a thread");
    if (rc) {
        d->thread = 0;
        *err = why;
        direct_close(d);
        return -1;
    }
    *ret = d;
    return 0;
}

void direct_close(struct direct *d)
{
    if (!d)
        return;
    if (d->thread) {
        {
            ACQUIRE(&d->lock);
            d->stop = true;
            if (d->sock >= 0)
                shutdown(d->sock, SHUT_RDWR);
            cond_broadcast(&d->wake);
        }
        pthread_join(d->thread, NULL);
    }
    for (struct direct_hand *h = d->hands, *next; h; h = next) {
        next = h->next;
        free(h);
    }
    cond_destroy(&d->wake);
    cond_destroy(&d->asked);
    lock_destroy(&d->lock);
    free(d->places);
    bytes_release(&d->give_back);
    free(d->socket);
    free(d->version);
    free(d->ids);
    free(d);
}

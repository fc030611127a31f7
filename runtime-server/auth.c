/* Who may ask: the bearer token of a file, and the addresses of the compat routes. */
#define LOG_MODULE "server"
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "conf.h"
#include "http-host.h"
#include "listen.h"
#include "log.h"
#include "mem.h"
#include "server-internal.h"

#define TOKEN_MIN 16
#define TOKEN_MAX 4096

/* --- the token -------------------------------------------------------------------------------- */

static int read_token(const char *path, char **ret, struct timespec *ret_at, struct err *err)
{
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    char text[TOKEN_MAX + 1];
    if (fd < 0 || fstat(fd, &st))
        return err_sys(err, errno, "token file %s", path);
    ssize_t n = read(fd, text, sizeof text - 1);
    if (n < 0)
        return err_sys(err, errno, "token file %s", path);
    while (n && isspace((unsigned char)text[n - 1]))
        n--;
    text[n] = '\0';
    if (n < TOKEN_MIN || strcspn(text, " \t\r\n") != (size_t)n)
        return err_set(err, ERR_USAGE,
                       "token file %s: want one line of at least %d characters without blanks",
                       path, TOKEN_MIN);
    *ret = xstrdup(text);
    *ret_at = st.st_mtim;
    explicit_bzero(text, sizeof text);
    return 0;
}

static void forget(char *token)
{
    if (token)
        explicit_bzero(token, strlen(token));
    free(token);
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* A rotated file is taken over at the next request; one that can't be read now changes nothing, and
 * the log says so once. */
static void refresh(struct auth *a)
{
    struct stat st;
    struct err err = {0};
    char *token;
    struct timespec at;
    if (stat(a->token_file, &st) || same_time(&st.st_mtim, &a->read_at))
        return;
    if (read_token(a->token_file, &token, &at, &err)) {
        if (!same_time(&st.st_mtim, &a->bad_at))
            log_warn(a->log, "the token stays as it was: %s", err.msg);
        a->bad_at = st.st_mtim;
        return;
    }
    forget(a->token);
    a->token = token;
    a->read_at = at;
}

/* The time it takes does not depend on where the two differ: volatile keeps the compiler from
 * ending the loop early. */
static bool same(const char *given, const char *wanted)
{
    size_t n = strlen(wanted), m = strlen(given);
    volatile unsigned char differ = n != m;
    for (size_t i = 0; i < n; i++)
        differ = (unsigned char)(differ | (wanted[i] ^ given[i < m ? i : 0]));
    return !differ;
}

bool auth_token_is(struct auth *a, const char *header)
{
    if (!a->token_file)
        return true;
    if (!header || strncasecmp(header, "Bearer ", 7) != 0 || !header[7])
        return false;
    ACQUIRE(&a->lock);
    refresh(a);
    return same(header + 7, a->token);
}

void auth_token_copy(struct auth *a, struct secret *ret)
{
    if (!a->token_file)
        return;
    ACQUIRE(&a->lock);
    refresh(a);
    secret_set(ret, a->token, strlen(a->token));
}

/* --- pages of other sites --------------------------------------------------------------------- */

bool auth_is_foreign_page(bool open, const char *site, const char *origin, const char *host)
{
    if (site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0)
        return true;
    const char *rest = origin ? strstr(origin, "://") : NULL;
    if (origin && (!rest || !host || strcasecmp(rest + 3, host) != 0))
        return true;
    return open && host && !http_host_is_here(host);
}

/* --- addresses -------------------------------------------------------------------------------- */

bool address_bytes(const struct sockaddr *addr, unsigned char ret[16])
{
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
    if (addr->sa_family == AF_INET6) {
        memcpy(ret, &((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr, 16);
        return true;
    }
    if (addr->sa_family != AF_INET)
        return false;
    memcpy(ret, mapped, 12);
    memcpy(ret + 12, &((const struct sockaddr_in *)(const void *)addr)->sin_addr, 4);
    return true;
}

static bool is_in(const struct network *n, const unsigned char address[16])
{
    unsigned whole = n->bits / 8, rest = n->bits % 8;
    if (memcmp(n->address, address, whole) != 0)
        return false;
    return !rest || !((n->address[whole] ^ address[whole]) >> (8 - rest));
}

bool auth_is_compat_peer(const struct auth *a, const struct sockaddr *peer)
{
    unsigned char address[16];
    if (!address_bytes(peer, address))
        return false;
    for (size_t i = 0; i < a->n_compat; i++)
        if (is_in(&a->compat[i], address))
            return true;
    return false;
}

static int network_parse(char *text, struct network *ret, struct err *err)
{
    char *slash = strchr(text, '/'), *end = NULL;
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (slash)
        *slash = '\0';
    bool is_v4 = inet_pton(AF_INET, text, &v4.sin_addr) == 1;
    unsigned most = is_v4 ? 32 : 128;
    unsigned long bits = slash ? strtoul(slash + 1, &end, 10) : most;
    if ((!is_v4 && inet_pton(AF_INET6, text, &v6.sin6_addr) != 1) ||
        (slash && (*end || end == slash + 1)) || bits > most)
        return err_set(err, ERR_USAGE,
                       "--compat-peers: \"%s%s%s\": want ADDRESS/BITS, as 10.0.0.0/8", text,
                       slash ? "/" : "", slash ? slash + 1 : "");
    address_bytes(is_v4 ? (const struct sockaddr *)&v4 : (const struct sockaddr *)&v6,
                  ret->address);
    ret->bits = (unsigned)bits + (is_v4 ? 96 : 0);
    return 0;
}

int networks_parse(const char *text, struct network **ret, size_t *n, struct err *err)
{
    cleanup_free char *copy = xstrdup(text);
    char *save = NULL;
    for (char *part = strtok_r(copy, ",", &save); part; part = strtok_r(NULL, ",", &save)) {
        *ret = xrealloc(*ret, (*n + 1) * sizeof **ret);
        if (network_parse(part, &(*ret)[*n], err))
            return -1;
        (*n)++;
    }
    return 0;
}

int listen_open(const char *text, int *ret, uint16_t *ret_port, bool *ret_loopback, struct err *err)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } got = {.v6 = {0}};
    socklen_t len = sizeof got;
    if (*text != '[' && strchr(text, ':') != strrchr(text, ':'))
        return err_set(err, ERR_USAGE, "--listen: \"%s\": an IPv6 address goes into brackets",
                       text);
    cleanup_close int sock = address_listen_at(text, err);
    if (sock < 0)
        return err_wrap(err, "--listen");
    if (getsockname(sock, &got.any, &len))
        return err_sys(err, errno, "listen on %s", text);
    *ret_port = ntohs(got.any.sa_family == AF_INET6 ? got.v6.sin6_port : got.v4.sin_port);
    *ret_loopback = address_is_loopback(sock);
    *ret = take_fd(&sock);
    return 0;
}

/* --- opening ---------------------------------------------------------------------------------- */

int auth_open(struct auth *a, const struct server_conf *conf, struct err *err)
{
    lock_init(&a->lock, RANK_METRICS, "server token");
    if (conf->compat_peers && networks_parse(conf->compat_peers, &a->compat, &a->n_compat, err))
        return -1;
    if (!conf->token_file)
        return 0;
    a->token_file = conf->token_file;
    a->log = conf->log;
    return read_token(conf->token_file, &a->token, &a->read_at, err);
}

void auth_close(struct auth *a)
{
    forget(a->token);
    free(a->compat);
    lock_destroy(&a->lock);
}

/* Where the servers of a cluster are: the list as --peers gives it, a file, or a service's name. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>

#include "listen.h"
#include "members.h"
#include "mem.h"

#define LIST_MAX (4u << 20) /* bytes of a file */

void member_list_release(struct member_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->urls[i]);
    free(l->urls);
    *l = (struct member_list){0};
}

bool members_is_file(const char *peers)
{
    return strstr(peers, "://") == NULL;
}

static void add_url(struct member_list *l, const char *url, size_t len)
{
    l->urls = xrealloc(l->urls, (l->n + 1) * sizeof *l->urls);
    l->urls[l->n++] = xstrndup(url, len);
}

/* "http://HOST:PORT", HOST a name, an address or [ADDR6]; no user, no path. */
static int check_url(const char *url, size_t len, size_t *ret_len, struct err *err)
{
    size_t scheme = strncmp(url, "https://", 8) == 0 ? 8 : strncmp(url, "http://", 7) == 0 ? 7 : 0;
    if (len > scheme && url[len - 1] == '/')
        len--;
    cleanup_free char *where = xstrndup(url + scheme, len - scheme);
    char host[ADDRESS_HOST], port[ADDRESS_PORT];
    bool good = scheme && address_split(where, host, sizeof host, port);
    for (const char *p = host; good && *p; p++)
        good = (unsigned char)*p > ' ' && !strchr("/@?#\\\"'%", *p);
    if (!good)
        return err_set(err, ERR_USAGE, "\"%.*s\": want http://HOST:PORT or https://HOST:PORT",
                       len > 200 ? 200 : (int)len, url);
    *ret_len = len;
    return 0;
}

/* One item of the list: "{k}" makes it one for each number. */
static int add_item(struct member_list *l, const char *item, size_t len, unsigned partitions,
                    struct err *err)
{
    const char *hole = memmem(item, len, "{k}", 3);
    if (check_url(item, len, &len, err))
        return -1;
    for (unsigned k = 0; hole && k < partitions; k++) {
        cleanup_free char *url = xasprintf("%.*s%u%.*s", (int)(hole - item), item, k,
                                           (int)(item + len - hole - 3), hole + 3);
        add_url(l, url, strlen(url));
    }
    if (!hole)
        add_url(l, item, len);
    return 0;
}

int members_parse(const char *text, bool lines, unsigned partitions, struct member_list *ret,
                  struct err *err)
{
    cleanup_member_list struct member_list l = {0};
    unsigned line = 0;
    bool holes = strstr(text, "{k}") != NULL;
    for (const char *p = text, *next; *p; p = next) {
        size_t len = strcspn(p, lines ? "\n" : ",");
        next = p + len + (p[len] != '\0');
        line++;
        const char *hash = lines ? memchr(p, '#', len) : NULL;
        len = hash ? (size_t)(hash - p) : len;
        while (len && strchr(" \t\r", p[len - 1]))
            len--;
        while (len && strchr(" \t", *p))
            p++, len--;
        if (len && add_item(&l, p, len, partitions, err))
            return lines ? err_wrap(err, "line %u", line) : -1;
    }
    if (l.n == 0)
        return err_set(err, ERR_USAGE, "no server is named (want http://HOST:PORT)");
    l.service = l.n == 1 && partitions > 1 && !holes;
    *ret = l;
    l = (struct member_list){0};
    return 0;
}

/* --- the world -------------------------------------------------------------------------------- */

static int read_file(const char *path, char **ret, struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : 1;
    while (n > 0 && text.len <= LIST_MAX) {
        bytes_reserve(&text, 1 << 16);
        n = read(fd, text.data + text.len, 1 << 16);
        text.len += n > 0 ? (size_t)n : 0;
    }
    if (n < 0)
        return err_sys(err, errno, "%s", path);
    if (n > 0)
        return err_set(err, ERR_LIMIT, "%s: longer than %u bytes", path, LIST_MAX);
    bytes_add_char(&text, '\0'); /* one that ends early at a NUL ends there */
    *ret = bytes_take(&text);
    return 0;
}

/* One URL a distinct address of the name. */
static int resolve(const char *url, struct member_list *ret, struct err *err)
{
    const char *where = strstr(url, "://") + 3;
    char host[ADDRESS_HOST], port[ADDRESS_PORT];
    (void)address_split(where, host, sizeof host, port); /* as check_url() did */
    const struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *all;
    int e = getaddrinfo(host, port, &want, &all);
    if (e)
        return err_set(err, ERR_TRANSIENT, "%s: %s", url, gai_strerror(e));
    for (const struct addrinfo *a = all; a; a = a->ai_next) {
        char text[64];
        if (getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST))
            continue;
        bool six = a->ai_family == AF_INET6;
        cleanup_free char *one = xasprintf("%.*s%s%s%s:%s", (int)(where - url), url, six ? "[" : "",
                                           text, six ? "]" : "", port);
        add_url(ret, one, strlen(one));
    }
    freeaddrinfo(all);
    return 0;
}

int members_read(const char *peers, unsigned partitions, struct member_list *ret, struct err *err)
{
    cleanup_free char *text = NULL;
    cleanup_member_list struct member_list named = {0};
    bool file = members_is_file(peers);
    if (file && read_file(peers, &text, err))
        return -1;
    if (members_parse(text ? text : peers, file, partitions, &named, err))
        return file ? err_wrap(err, "%s", peers) : -1;
    if (!named.service) {
        *ret = named;
        named = (struct member_list){0};
        return 0;
    }
    struct member_list found = {.service = true};
    if (resolve(named.urls[0], &found, err))
        return -1;
    *ret = found;
    return 0;
}

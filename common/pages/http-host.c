#include "http-host.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

bool http_host_is_here(const char *host)
{
    static const char *const names[] = {"localhost", "[::1]"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t n = strlen(names[i]);
        if (strncasecmp(host, names[i], n) == 0 && (!host[n] || host[n] == ':'))
            return true;
    }
    struct in_addr v4;
    char name[64];
    size_t n = strcspn(host, ":");
    if (n >= sizeof name)
        return false;
    memcpy(name, host, n);
    name[n] = '\0';
    return inet_pton(AF_INET, name, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

/* What both signatures share: sums, the parts of a URL, the canonical query. */
#include "sign-internal.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <strings.h>

#include "hash.h"
#include "mem.h"

#define PARAMS_MAX 64

void hmac_sha256(uint8_t out[SHA256_LEN], const void *key, size_t key_len, const void *data,
                 size_t len)
{
    if (!HMAC(EVP_sha256(), key, (int)key_len, data, len, out, NULL))
        mem_exhausted();
}

/* A library in FIPS mode has no MD5; then the sum is all zeros and the server says what it misses.
 */
static void md5_raw(uint8_t sum[16], const void *data, size_t len)
{
    if (!EVP_Digest(data ? data : "", len, sum, NULL, EVP_md5(), NULL))
        memset(sum, 0, 16);
}

void md5_hex(char out[33], const void *data, size_t len)
{
    uint8_t sum[16];
    md5_raw(sum, data, len);
    hex_encode(out, sum, sizeof sum);
}

void md5_base64(char out[25], const void *data, size_t len)
{
    uint8_t sum[16];
    md5_raw(sum, data, len);
    base64_encode(out, sum, sizeof sum);
}

const char *method_name(enum http_method m)
{
    static const char *const names[] = {
        [HTTP_GET] = "GET",   [HTTP_HEAD] = "HEAD",     [HTTP_PUT] = "PUT",
        [HTTP_POST] = "POST", [HTTP_DELETE] = "DELETE", [HTTP_PATCH] = "PATCH"};
    return names[m];
}

/* The HTTP library sends no port in Host where it is the scheme's own. */
static size_t host_without_default_port(const char *url, const char *host, size_t len)
{
    const char *port = http_is_tls(url) ? ":443" : ":80";
    size_t n = strlen(port);
    return len > n && memcmp(host + len - n, port, n) == 0 ? len - n : len;
}

void url_split(const char *url, struct url_parts *ret)
{
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    size_t host_len = strcspn(host, "/?#");
    const char *path = host + host_len;
    size_t path_len = strcspn(path, "?#");
    const char *query = path + path_len;
    if (*query == '?')
        query++;
    *ret = (struct url_parts){
        .host = host,
        .host_len = host_without_default_port(url, host, host_len),
        .path = path_len ? path : "/",
        .path_len = path_len ? path_len : 1,
        .query = query,
        .query_len = strcspn(query, "#"),
    };
}

struct param {
    const char *text;
    size_t name_len, len;
};

/* By name, then by value: "a=" sorts before "a-b=" though '-' < '='. */
static int compare_params(const void *va, const void *vb)
{
    const struct param *a = va, *b = vb;
    size_t n = a->name_len < b->name_len ? a->name_len : b->name_len;
    int c = memcmp(a->text, b->text, n);
    if (c)
        return c;
    if (a->name_len != b->name_len)
        return a->name_len < b->name_len ? -1 : 1;
    n = a->len < b->len ? a->len : b->len;
    c = memcmp(a->text, b->text, n);
    return c ? c : (a->len > b->len) - (a->len < b->len);
}

void canonical_query(const char *query, size_t len, struct bytes *out)
{
    struct param params[PARAMS_MAX];
    size_t n = 0;
    const char *end = query + len;
    for (const char *p = query; p < end && n < PARAMS_MAX;) {
        const char *amp = memchr(p, '&', (size_t)(end - p));
        size_t part = (size_t)((amp ? amp : end) - p);
        const char *eq = memchr(p, '=', part);
        if (part)
            params[n++] = (struct param){p, eq ? (size_t)(eq - p) : part, part};
        p += part + 1;
    }
    qsort(params, n, sizeof params[0], compare_params);
    for (size_t i = 0; i < n; i++) {
        if (i)
            bytes_add_char(out, '&');
        bytes_add(out, params[i].text, params[i].len);
        if (params[i].name_len == params[i].len)
            bytes_add_char(out, '=');
    }
}

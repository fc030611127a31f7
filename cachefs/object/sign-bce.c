/* Baidu's bce-auth-v1: request + key + time -> headers. Pure. */
#include "sign-internal.h"

#include <openssl/crypto.h>
#include <string.h>
#include <strings.h>

#include "clock.h"
#include "hash.h"

static bool is_signed(const char *name, size_t len)
{
    static const char *const names[] = {"host", "content-length", "content-type", "content-md5"};
    if (len > 6 && strncasecmp(name, "x-bce-", 6) == 0)
        return !(len == 16 && strncasecmp(name, "x-bce-request-id", len) == 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == len && strncasecmp(name, names[i], len) == 0)
            return true;
    return false;
}

/* "name:value", both encoded, the name in lower case. */
static void add_line(struct bytes *out, const char *name, size_t name_len, const char *value,
                     size_t value_len)
{
    while (value_len && (*value == ' ' || *value == '\t')) {
        value++;
        value_len--;
    }
    while (value_len && (value[value_len - 1] == ' ' || value[value_len - 1] == '\t'))
        value_len--;
    for (size_t i = 0; i < name_len; i++)
        bytes_add_char(out, (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] + 32 : name[i]));
    bytes_add_char(out, ':');
    url_encode(out, value, value_len, false);
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(((const struct bytes *)a)->data, ((const struct bytes *)b)->data);
}

static void canonical_headers(const struct http_req *r, const struct url_parts *url,
                              struct bytes *out, struct bytes *ret_names)
{
    struct bytes lines[HTTP_MAX_HEADERS + 1] = {0};
    size_t n = 0;
    bool has_host = false;
    for (size_t i = 0; i < r->n_headers; i++) {
        const char *name = r->headers[i].data;
        size_t len = strcspn(name, ":");
        if (name[len] != ':' || !is_signed(name, len))
            continue;
        has_host |= len == 4 && strncasecmp(name, "host", 4) == 0;
        add_line(&lines[n++], name, len, name + len + 1, strlen(name + len + 1));
    }
    if (!has_host)
        add_line(&lines[n++], "host", 4, url->host, url->host_len);
    qsort(lines, n, sizeof lines[0], compare_lines);
    for (size_t i = 0; i < n; i++) {
        bytes_addf(out, "%s%s", i ? "\n" : "", lines[i].data);
        bytes_addf(ret_names, "%s%.*s", i ? ";" : "", (int)strcspn(lines[i].data, ":"),
                   lines[i].data);
        OPENSSL_cleanse(lines[i].data, lines[i].len); /* one of them may be the token */
        bytes_release(&lines[i]);
    }
}

void bce_sign(struct http_req *r, const struct bce_params *p)
{
    char stamp[CLOCK_TEXT];
    clock_text(p->now_s, stamp);
    http_header(r, "x-bce-date", "%s", stamp);
    if (p->token && p->token->text)
        http_header(r, "x-bce-security-token", "%s", p->token->text);

    struct url_parts url;
    url_split(r->url.data, &url);
    cleanup_bytes struct bytes canonical = {0}, names = {0}, prefix = {0};
    bytes_addf(&canonical, "%s\n", method_name(r->method));
    bytes_add(&canonical, url.path, url.path_len);
    bytes_add_char(&canonical, '\n');
    canonical_query(url.query, url.query_len, &canonical);
    bytes_add_char(&canonical, '\n');
    canonical_headers(r, &url, &canonical, &names);

    bytes_addf(&prefix, "bce-auth-v1/%s/%s/%u", p->access_key, stamp, p->expire_s);
    uint8_t mac[SHA256_LEN];
    char key[2 * SHA256_LEN + 1], signature[2 * SHA256_LEN + 1];
    hmac_sha256(mac, p->secret->text, p->secret->len, prefix.data, prefix.len);
    hex_encode(key, mac, sizeof mac); /* the key is the text of the digest */
    hmac_sha256(mac, key, 2 * SHA256_LEN, canonical.data, canonical.len);
    hex_encode(signature, mac, sizeof mac);
    OPENSSL_cleanse(key, sizeof key);
    OPENSSL_cleanse(canonical.data, canonical.len);
    http_header(r, "Authorization", "%s/%s/%s", prefix.data, names.data, signature);
}

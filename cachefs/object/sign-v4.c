/* AWS Signature Version 4: request + key + time -> headers. Pure. */
#include "sign-internal.h"

#include <openssl/crypto.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "hash.h"

#define ALGORITHM "AWS4-HMAC-SHA256"

/* --- canonical request ----------------------------------------------------------------------- */

struct field {
    char name[64]; /* lower case */
    const char *value;
};

static int compare_fields(const void *a, const void *b)
{
    return strcmp(((const struct field *)a)->name, ((const struct field *)b)->name);
}

static bool field_of(const struct bytes *header, struct field *ret)
{
    size_t len = strcspn(header->data, ":");
    if (len >= sizeof ret->name || header->data[len] != ':')
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = header->data[i];
        ret->name[i] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
    }
    ret->name[len] = '\0';
    ret->value = header->data + len + 1;
    return strcmp(ret->name, "authorization") != 0;
}

/* Without blanks around it, runs of blanks as one. */
static void add_value(struct bytes *out, const char *value, size_t len)
{
    bool blank = false, any = false;
    for (size_t i = 0; i < len; i++) {
        if (value[i] == ' ' || value[i] == '\t') {
            blank = any;
            continue;
        }
        if (blank)
            bytes_add_char(out, ' ');
        blank = false;
        any = true;
        bytes_add_char(out, value[i]);
    }
}

static void v4_canonical(const struct http_req *r, const char *payload, struct bytes *out,
                         struct bytes *ret_signed_headers)
{
    struct url_parts url;
    url_split(r->url.data, &url);
    struct field fields[HTTP_MAX_HEADERS + 1];
    size_t n = 0;
    bool has_host = false;
    for (size_t i = 0; i < r->n_headers; i++)
        if (field_of(&r->headers[i], &fields[n]))
            has_host |= strcmp(fields[n++].name, "host") == 0;
    if (!has_host)
        fields[n++] = (struct field){"host", NULL}; /* the URL's */
    qsort(fields, n, sizeof fields[0], compare_fields);

    bytes_addf(out, "%s\n", method_name(r->method));
    bytes_add(out, url.path, url.path_len);
    bytes_add_char(out, '\n');
    canonical_query(url.query, url.query_len, out);
    bytes_add_char(out, '\n');
    for (size_t i = 0; i < n; i++) {
        const char *value = fields[i].value ? fields[i].value : url.host;
        bytes_addf(out, "%s:", fields[i].name);
        add_value(out, value, fields[i].value ? strlen(value) : url.host_len);
        bytes_add_char(out, '\n');
        bytes_addf(ret_signed_headers, "%s%s", i ? ";" : "", fields[i].name);
    }
    bytes_addf(out, "\n%s\n%s", ret_signed_headers->data, payload);
}

/* --- key and signature ----------------------------------------------------------------------- */

static void derive(uint8_t key[SHA256_LEN], const struct v4_params *p, const char *date)
{
    cleanup_wiped struct bytes first = {0}; /* "AWS4" + secret */
    bytes_add_str(&first, "AWS4");
    bytes_add(&first, p->secret->text, p->secret->len);
    hmac_sha256(key, first.data, first.len, date, strlen(date));
    hmac_sha256(key, key, SHA256_LEN, p->region, strlen(p->region));
    hmac_sha256(key, key, SHA256_LEN, p->service, strlen(p->service));
    hmac_sha256(key, key, SHA256_LEN, "aws4_request", 12);
}

static void signing_key(uint8_t key[SHA256_LEN], const struct v4_params *p, const char *date)
{
    struct v4_key *cache = p->cache;
    char scope[sizeof cache->scope];
    int len = snprintf(scope, sizeof scope, "%s/%s/%s", date, p->region, p->service);
    bool fits = len > 0 && (size_t)len < sizeof scope;
    if (cache && fits && strcmp(cache->scope, scope) == 0) {
        memcpy(key, cache->key, SHA256_LEN);
        return;
    }
    derive(key, p, date);
    if (cache && fits) {
        memcpy(cache->key, key, SHA256_LEN);
        memcpy(cache->scope, scope, sizeof scope);
    }
}

void v4_sign(struct http_req *r, const struct v4_params *p)
{
    time_t now = (time_t)p->now_s;
    struct tm tm;
    gmtime_r(&now, &tm);
    char stamp[32], date[16];
    strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &tm);
    strftime(date, sizeof date, "%Y%m%d", &tm);

    http_header(r, "X-Amz-Date", "%s", stamp);
    if (p->payload_header)
        http_header(r, "X-Amz-Content-Sha256", "%s", p->payload);
    if (p->token && p->token->text)
        http_header(r, "X-Amz-Security-Token", "%s", p->token->text);

    cleanup_bytes struct bytes canonical = {0}, names = {0}, to_sign = {0};
    v4_canonical(r, p->payload, &canonical, &names);
    char digest[2 * SHA256_LEN + 1], hex[2 * SHA256_LEN + 1];
    sha256_hex(digest, canonical.data, canonical.len);
    bytes_addf(&to_sign, ALGORITHM "\n%s\n%s/%s/%s/aws4_request\n%s", stamp, date, p->region,
               p->service, digest);
    uint8_t key[SHA256_LEN], mac[SHA256_LEN];
    signing_key(key, p, date);
    hmac_sha256(mac, key, sizeof key, to_sign.data, to_sign.len);
    OPENSSL_cleanse(key, sizeof key);
    hex_encode(hex, mac, sizeof mac);
    http_header(r, "Authorization",
                ALGORITHM " Credential=%s/%s/%s/%s/aws4_request, SignedHeaders=%s, Signature=%s",
                p->access_key, date, p->region, p->service, names.data, hex);
    /* The canonical text holds the token. */
    OPENSSL_cleanse(canonical.data, canonical.len);
}

/* What tells the versions of an object apart, and right bytes from wrong ones. Pure. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "crc.h"
#include "hash.h"
#include "mem.h"
#include "object-internal.h"
#include "sign-internal.h"

#define TIME_TAG "time:"

bool store_etag_is_sum(const char *etag)
{
    return strncmp(etag, "sum:", 4) == 0;
}

bool store_parts_etag(const struct part_tag *parts, size_t n, char ret[160])
{
    enum { MD5_LEN = 16 };
    cleanup_free unsigned char *sums = xmalloc(n * MD5_LEN + 1);
    char hex[2 * MD5_LEN + 1];
    for (size_t i = 0; i < n; i++)
        if (strlen(parts[i].etag) != 2 * MD5_LEN ||
            hex_decode(sums + i * MD5_LEN, MD5_LEN, parts[i].etag))
            return false;
    md5_hex(hex, sums, n * MD5_LEN);
    snprintf(ret, 160, "%s-%zu", hex, n);
    return true;
}

void store_etag_add(char etag[160], const struct http_answer *head)
{
    size_t len = strlen(etag), more = strlen(head->etag);
    if (store_etag_is_sum(etag)) {
        if (more && !strchr(etag, '/') && len + 1 + more < 160) {
            etag[len] = '/';
            memcpy(etag + len + 1, head->etag, more + 1);
        }
    } else if (*head->etag) {
        snprintf(etag, 160, "%s", head->etag);
    } else if (head->last_modified >= 0) {
        snprintf(etag, 160, TIME_TAG "%lld", (long long)head->last_modified);
    }
}

int store_check_etag(const char *etag, const struct http_answer *a, struct err *err)
{
    const char *tag = etag;
    if (strncmp(etag, TIME_TAG, strlen(TIME_TAG)) == 0) {
        long long then = strtoll(etag + strlen(TIME_TAG), NULL, 10);
        if (a->last_modified < 0 || a->last_modified == then)
            return 0;
        return err_set(err, ERR_STALE,
                       "changed at the source since the scan: its Last-Modified is %lld, the "
                       "catalog has %lld (scan again, or mount with --refresh)",
                       (long long)a->last_modified, then);
    }
    if (store_etag_is_sum(etag)) {
        const char *slash = strchr(etag, '/');
        tag = slash ? slash + 1 : "";
    }
    if (!*tag || !*a->etag || strcmp(tag, a->etag) == 0)
        return 0;
    return err_set(err, ERR_STALE,
                   "changed at the source since the scan: its ETag is \"%s\", the catalog has "
                   "\"%s\" (scan again, or mount with --refresh)",
                   a->etag, tag);
}

int store_check_sum(const char *etag, const void *data, size_t len, struct err *err)
{
    if (!store_etag_is_sum(etag))
        return 0;
    const char *kind = etag + 4;
    char got[2 * SHA256_LEN + 1];
    if (strncmp(kind, "sha256:", 7) == 0)
        sha256_hex(got, data, len);
    else if (strncmp(kind, "md5:", 4) == 0)
        md5_hex(got, data, len);
    else if (strncmp(kind, "crc32c:", 7) == 0)
        snprintf(got, sizeof got, "%08x", crc32c(0, data, len));
    else
        return err_set(err, ERR_USAGE, "unknown kind of sum: %s (known: sha256, md5, crc32c)",
                       kind);
    const char *want = strchr(kind, ':') + 1;
    size_t want_len = strcspn(want, "/");
    if (want_len != strlen(got) || strncasecmp(want, got, want_len) != 0)
        return err_set(
            err, ERR_CORRUPT,
            "wrong bytes: their sum is %s, the manifest says %.*s (replace one of the two)", got,
            (int)want_len, want);
    return 0;
}

bool store_has_sum(const struct http_answer *a)
{
    return a->sum[0] && !a->sum_of_parts;
}

int store_check_own_sum(const struct http_answer *a, const void *data, size_t len, struct err *err)
{
    if (!store_has_sum(a))
        return 0;
    bool wide = strcasecmp(a->sum_kind, "crc64nvme") == 0;
    enum crc_kind kind = wide                                     ? CRC_64_NVME
                         : strcasecmp(a->sum_kind, "crc32c") == 0 ? CRC_32C
                                                                  : CRC_32;
    uint64_t sum = crc_add(kind, 0, data, len);
    char got[sizeof a->sum];
    uint64_t bytes = htobe64(wide ? sum : sum << 32);
    base64_encode(got, &bytes, wide ? 8 : 4);
    if (strcmp(got, a->sum) == 0)
        return 0;
    return err_set(err, ERR_CORRUPT,
                   "wrong bytes: their %s is %s, the store says %s (upload the object again; if "
                   "it is this store's sums that are wrong, mount with --no-store-sums)",
                   a->sum_kind, got, a->sum);
}

/* The bytes of a version's digest. Fields are gathered so that the hash sees big blocks. */
#include "digest-internal.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "hash.h"
#include "mem.h"

#define BLOCK (64u << 10)

struct digest {
    EVP_MD_CTX *ctx;
    size_t used;
    unsigned char block[BLOCK];
};

/* The hash is part of the library's core: it fails for want of memory alone. */
static void must(int ok)
{
    if (!ok)
        mem_exhausted();
}

static void put(struct digest *d, const void *data, size_t len)
{
    const unsigned char *p = data;
    while (len > 0) {
        size_t some = len < BLOCK - d->used ? len : BLOCK - d->used;
        memcpy(d->block + d->used, p, some);
        d->used += some;
        p += some;
        len -= some;
        if (d->used == BLOCK) {
            must(EVP_DigestUpdate(d->ctx, d->block, d->used));
            d->used = 0;
        }
    }
}

static void put64(struct digest *d, uint64_t v)
{
    unsigned char b[8];
    for (int i = 0; i < 8; i++)
        b[i] = (unsigned char)(v >> (8 * i));
    put(d, b, sizeof b);
}

static void put_bytes(struct digest *d, const void *data, size_t len)
{
    put64(d, len);
    if (len)
        put(d, data, len);
}

struct digest *digest_begin(uint32_t n_sources)
{
    static const char title[] = "sampan catalog 1\n";
    struct digest *d = xcalloc(1, sizeof *d);
    /* The library makes its context at first use, and where that fails goes on without one. */
    must(OSSL_LIB_CTX_get0_global_default() != NULL);
    d->ctx = EVP_MD_CTX_new();
    must(d->ctx && EVP_DigestInit_ex(d->ctx, EVP_sha256(), NULL));
    put(d, title, sizeof title - 1);
    put64(d, n_sources);
    return d;
}

void digest_source(struct digest *d, const char *uri, const char *at)
{
    put_bytes(d, uri, strlen(uri));
    put_bytes(d, at, strlen(at));
}

void digest_sample(struct digest *d, const char *key, size_t key_len, uint64_t size,
                   int64_t mtime_ns, const char *etag, uint32_t source, const char *object,
                   size_t object_len, uint64_t pack_offset, uint64_t number)
{
    put(d, "s", 1);
    put_bytes(d, key, key_len);
    put64(d, size);
    put64(d, (uint64_t)mtime_ns);
    put_bytes(d, etag, strlen(etag));
    put64(d, source);
    put64(d, object != NULL);
    if (object) {
        put_bytes(d, object, object_len);
        put64(d, pack_offset);
    }
    put64(d, number);
}

void digest_folder(struct digest *d, const char *key, size_t key_len, int64_t mtime_ns)
{
    put(d, "d", 1);
    put_bytes(d, key, key_len);
    put64(d, (uint64_t)mtime_ns);
}

void digest_bad(struct digest *d, const char *key, size_t len, const char *why)
{
    put(d, "b", 1);
    put_bytes(d, key, len);
    put_bytes(d, why, strlen(why));
}

void digest_end(struct digest *d, char ret[CATALOG_DIGEST + 1])
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    if (!d)
        return;
    must(EVP_DigestUpdate(d->ctx, d->block, d->used));
    must(EVP_DigestFinal_ex(d->ctx, sum, &len));
    assert(2 * len == CATALOG_DIGEST);
    if (ret)
        hex_encode(ret, sum, len);
    EVP_MD_CTX_free(d->ctx);
    free(d);
}

uint64_t ids_add(uint64_t sum, uint64_t id)
{
    return hash_mix64(sum ^ id) + id;
}

uint64_t ids_end(uint64_t sum)
{
    uint64_t ids = hash_mix64(sum) >> 1;
    return ids ? ids : 1;
}

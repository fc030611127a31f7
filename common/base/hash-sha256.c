/* SHA-256 and base64, apart from the other sums: they need a library that not all users of those
 * have. */
#include <openssl/evp.h>

#include "hash.h"
#include "mem.h"

void sha256_hex(char out[65], const void *data, size_t len)
{
    unsigned char sum[32];
    if (!EVP_Digest(data ? data : "", len, sum, NULL, EVP_sha256(), NULL))
        mem_exhausted();
    hex_encode(out, sum, sizeof sum);
}

void base64_encode(char *out, const void *data, size_t len)
{
    EVP_EncodeBlock((unsigned char *)out, data, (int)len);
}

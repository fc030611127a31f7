/* SHA-256, apart from the other sums: it needs a library that not all users of those have. */
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

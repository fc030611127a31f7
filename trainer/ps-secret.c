/* The secret of a job: read, and proved without telling it. */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>

#include "buf.h"
#include "cleanup.h"
#include "mem.h"
#include "ps-secret.h"
#include "secret-file.h"

#define TOKEN_MIN 16

int ps_secret_read(struct secret *ret, const char *file, struct err *err)
{
    *ret = (struct secret){0};
    if (!file || !*file)
        return 0;
    struct err why = {0};
    if (secret_read(ret, file, &why) && why.class != ERR_USAGE)
        return err_set(err, why.class, "--ps_token_file: %s", why.msg);
    if (ret->text && ret->len >= TOKEN_MIN && strcspn(ret->text, " \t\r\n") == ret->len)
        return 0;
    secret_release(ret);
    return err_set(err, ERR_USAGE,
                   "--ps_token_file: %s: want one line of %d to %d characters without blanks", file,
                   TOKEN_MIN, SECRET_FILE_MAX);
}

int ps_secret_draw(uint8_t ret[PS_NUMBER], struct err *err)
{
    if (getrandom(ret, PS_NUMBER, 0) != PS_NUMBER)
        return err_sys(err, errno, "draw a number");
    return 0;
}

/* `who` keeps what one end proves from serving as the proof of the other. */
static void sum(const struct secret *s, const char *who, const struct bytes *text,
                uint8_t ret[PS_NUMBER])
{
    cleanup_bytes struct bytes all = {0};
    unsigned int len = 0;
    bytes_add_str(&all, who);
    bytes_add(&all, text->data, text->len);
    if (!HMAC(EVP_sha256(), s->text, (int)s->len, (const unsigned char *)all.data, all.len, ret,
              &len) ||
        len != PS_NUMBER)
        mem_exhausted();
}

void ps_secret_of_server(const struct secret *s, const uint8_t trainer[PS_NUMBER],
                         const uint8_t server[PS_NUMBER], uint8_t ret[PS_NUMBER])
{
    cleanup_bytes struct bytes text = {0};
    bytes_add(&text, trainer, PS_NUMBER);
    bytes_add(&text, server, PS_NUMBER);
    sum(s, "sampan pserver", &text, ret);
}

void ps_secret_of_trainer(const struct secret *s, const uint8_t server[PS_NUMBER],
                          const void *hello, size_t len, uint8_t ret[PS_NUMBER])
{
    cleanup_bytes struct bytes text = {0};
    bytes_add(&text, server, PS_NUMBER);
    bytes_add(&text, hello, len);
    sum(s, "sampan trainer", &text, ret);
}

bool ps_secret_same(const uint8_t a[PS_NUMBER], const uint8_t b[PS_NUMBER])
{
    return CRYPTO_memcmp(a, b, PS_NUMBER) == 0;
}

/* Resume tokens as text: "sampan-order-1:SAMPLES:RANKS@POSITION[,…]:SPEC:CRC". Pure. */
#include "order-internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME    "sampan-order-"
#define VERSION "1"
#define SUM     9 /* ":" and eight hex digits at the end */

static uint32_t sum_of(const char *text, size_t len)
{
    struct order_crc c;
    order_crc_init(&c);
    order_crc_bytes(&c, text, len);
    return order_crc_value(&c);
}

void order_token_print(const struct order_token *t, char *out)
{
    size_t size = ORDER_TOKEN_TEXT - SUM - 1;
    size_t len = (size_t)snprintf(out, size, NAME VERSION ":%llu", (unsigned long long)t->n);
    for (size_t i = 0; i < t->n_parts; i++)
        len += (size_t)snprintf(out + len, size - len, "%c%u@%llu", i ? ',' : ':',
                                t->parts[i].ranks, (unsigned long long)t->parts[i].position);
    out[len++] = ':';
    order_spec_print_brief(&t->spec, out + len, size - len);
    len = strlen(out);
    snprintf(out + len, ORDER_TOKEN_TEXT - len, ":%08x", sum_of(out, len));
}

static int no_token(struct err *err, const char *why)
{
    return err_set(err, ERR_USAGE,
                   "resume token: %s (a token looks like " NAME VERSION
                   ":SAMPLES:RANKS@POSITION:SPEC:CRC)",
                   why);
}

/* A number up to `end`, which is stepped over. */
static int take_number(const char **at, const char *ends, uint64_t max, uint64_t *ret)
{
    char *stop;
    errno = 0;
    unsigned long long v = strtoull(*at, &stop, 10);
    if (**at < '0' || **at > '9' || errno || v > max || !*stop || !strchr(ends, *stop))
        return -1;
    *ret = v;
    *at = stop + 1;
    return 0;
}

static int check_sum(const char *text, size_t len, struct err *err)
{
    char want[SUM + 1];
    if (len < SUM || text[len - SUM] != ':')
        return no_token(err, "it is cut off");
    snprintf(want, sizeof want, ":%08x", sum_of(text, len - SUM));
    if (strcmp(want, text + len - SUM) != 0)
        return no_token(err, "its sum is wrong: it was changed or cut");
    return 0;
}

static int take_parts(const char **at, struct order_token *t, struct err *err)
{
    char end = ',';
    while (end == ',') {
        uint64_t ranks, position;
        if (t->n_parts == ORDER_PARTS)
            return no_token(err, "too many parts");
        if (take_number(at, "@", 1u << 20, &ranks) || ranks == 0 ||
            take_number(at, ",:", ORDER_MAX_SAMPLES, &position))
            return no_token(err, "RANKS@POSITION is not two numbers");
        end = (*at)[-1];
        t->parts[t->n_parts++] = (struct order_part){(uint32_t)ranks, position};
    }
    return 0;
}

int order_token_parse(struct order_token *ret, const char *text, struct err *err)
{
    struct order_token t = {0};
    char spec[ORDER_TOKEN_TEXT];
    size_t len = strlen(text), name = strlen(NAME VERSION ":");
    if (strncmp(text, NAME, strlen(NAME)) != 0)
        return no_token(err, "this is none");
    if (strncmp(text, NAME VERSION ":", name) != 0)
        return no_token(err, "it is of another version");
    if (len >= ORDER_TOKEN_TEXT)
        return no_token(err, "it is too long");
    if (check_sum(text, len, err))
        return -1;
    const char *at = text + name;
    if (take_number(&at, ":", ORDER_MAX_SAMPLES, &t.n))
        return no_token(err, "SAMPLES is not a number");
    if (take_parts(&at, &t, err))
        return -1;
    size_t spec_len = len - SUM - (size_t)(at - text);
    if (at > text + len - SUM)
        return no_token(err, "it is cut off");
    memcpy(spec, at, spec_len);
    spec[spec_len] = '\0';
    if (order_spec_parse(&t.spec, spec, err))
        return err_wrap(err, "resume token");
    *ret = t;
    return 0;
}

void order_token_begin(const struct order_spec *spec, uint64_t samples, struct order_token *ret)
{
    *ret = (struct order_token){
        .n = samples, .spec = *spec, .n_parts = 1, .parts = {{.ranks = spec->ranks}}};
    ret->spec.rank = 0;
    ret->spec.ranks = ret->spec.ranks_per_node = 1;
    ret->spec.has_rank = ret->spec.has_ranks = ret->spec.has_ranks_per_node = false;
}

int order_token_of(const struct order *o, uint64_t pos, struct order_token *ret, struct err *err)
{
    uint64_t read = o->skip + pos;
    if (read > o->length)
        return err_set(err, ERR_USAGE,
                       "resume token: position %llu: a rank reads only %llu samples",
                       (unsigned long long)pos, (unsigned long long)order_length(o));
    if (o->n_parts == ORDER_PARTS)
        return err_set(err, ERR_LIMIT, "resume token: dealt anew %d times within one epoch",
                       ORDER_PARTS);
    order_token_begin(&o->spec, o->n, ret);
    memcpy(ret->parts, o->parts, sizeof ret->parts);
    ret->parts[o->n_parts] = (struct order_part){o->spec.ranks, read};
    ret->n_parts = o->n_parts + 1;
    return 0;
}

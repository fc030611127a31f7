/* Small parsers of text: JSON, sizes, rates, durations, sampler SPECs, header lines, URL escapes.
 * The first byte picks one. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "conf.h"
#include "http.h"
#include "json.h"
#include "order.h"

static void parse_json(const char *text, size_t len)
{
    struct json_doc *doc;
    struct err err = {0};

    if (json_parse(&doc, "input", text, len, &err))
        return;
    struct json root = json_root(doc);
    const char *s;
    int64_t n;
    json_str(&root, "op", &s, &err);
    json_int(&root, "epoch", 0, 1000, &n, &err);
    for (size_t i = 0; i < json_count(&root) && i < 8; i++)
        json_at(&root, i);
    json_doc_free(doc);
}

static void parse_spec(const char *text)
{
    struct order_spec spec;
    struct order *order;
    struct err err = {0};
    char printed[4096];

    if (order_spec_parse(&spec, text, &err))
        return;
    order_spec_print(&spec, printed, sizeof(printed));
    if (spec.ranks > 64 || spec.epochs > 4 || order_new(&order, &spec, 37, &err))
        return;
    for (uint64_t i = 0; i < order_length(order); i++)
        if (order_at(order, i) >= 37)
            abort();
    order_free(order);
}

static void parse_headers(const char *text, size_t len)
{
    struct http_answer answer;
    struct http_framing framing;

    if (http_answer_head(text, len, &answer, &framing) == HEAD_PLAIN && framing.head_len > len)
        abort();

    http_answer_init(&answer);
    while (len) {
        const char *end = memchr(text, '\n', len);
        size_t line = end ? (size_t)(end - text) + 1 : len;
        http_answer_line(&answer, text, line);
        text += line;
        len -= line;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    char *text = malloc(size);
    struct err err = {0};
    uint64_t n;

    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (data[0] % 7) {
    case 0:
        parse_json(text, size - 1);
        break;
    case 1:
        conf_size(text, &n, &err);
        break;
    case 2:
        conf_rate(text, &n, &err);
        break;
    case 3:
        conf_duration(text, &n, &err);
        break;
    case 4:
        parse_spec(text);
        break;
    case 5:
        parse_headers(text, size - 1);
        break;
    default: {
        char *out = malloc(size);
        if (url_decode(out, text, size - 1) > size - 1)
            abort();
        free(out);
    }
    }
    free(text);
    return 0;
}

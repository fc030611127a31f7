/*
 * Graphs: of an event file, and of a model in ONNX, which may be as large as its weights: these are
 * passed over in the file.
 *
 * GraphDef {1 node {1 name, 2 op, 3 inputs}}
 * ModelProto {7 graph {1 node {1 inputs, 2 outputs, 3 name, 4 op}}}
 */
#include <string.h>

#include "protobuf.h"
#include "runs-internal.h"

#define NODES_MAX 20000
#define NODE_MAX  (16u << 20) /* a constant may lie in a node */
#define NAME_MOST 4096        /* what is longer is cut */
#define TEXT_MOST (16u << 20) /* of an answer */

static void add_text(struct json_writer *w, const struct pb_field *f)
{
    jw_strn(w, NULL, f->len ? f->data : "", f->len < NAME_MOST ? f->len : NAME_MOST);
}

static void begin(struct json_writer *w, struct bytes *out)
{
    jw_init(w, out);
    jw_object(w, NULL);
    jw_array(w, "nodes");
}

static void end_answer(struct json_writer *w)
{
    jw_end(w);
    jw_end(w);
}

/* The numbers of a node's fields, which differ. */
struct node_form {
    unsigned name, op, input, output; /* output 0: it is the name */
};

static void add_texts(struct json_writer *w, unsigned number, const char *data, size_t len)
{
    struct pb_field f;
    jw_array(w, NULL);
    while (w->out->len <= TEXT_MOST && pb_next(&data, &len, &f) == 1)
        if (f.type == 2 && f.number == number)
            add_text(w, &f);
    jw_end(w);
}

static int add_node(struct json_writer *w, const struct node_form *form, const char *data,
                    size_t len, struct err *err)
{
    struct pb_field f, name = {0}, op = {0};
    const char *again = data;
    size_t left = len;
    int got;
    while ((got = pb_next(&again, &left, &f)) == 1)
        if (f.type == 2 && f.number == form->name)
            name = f;
        else if (f.type == 2 && f.number == form->op)
            op = f;
    if (got < 0)
        return err_set(err, ERR_CORRUPT, "the graph is damaged");
    jw_array(w, NULL);
    add_text(w, &name);
    add_text(w, &op);
    add_texts(w, form->input, data, len);
    if (form->output)
        add_texts(w, form->output, data, len);
    jw_end(w);
    if (w->out->len > TEXT_MOST)
        return err_set(err, ERR_LIMIT, "the graph is too large to be shown");
    return 0;
}

int graph_answer(const char *data, size_t len, struct bytes *out, struct err *err)
{
    static const struct node_form form = {.name = 1, .op = 2, .input = 3};
    struct json_writer w;
    struct pb_field f;
    int got, n = 0;
    begin(&w, out);
    while ((got = pb_next(&data, &len, &f)) == 1 && n < NODES_MAX)
        if (f.number == 1 && f.type == 2) {
            if (add_node(&w, &form, f.data, f.len, err))
                return -1;
            n++;
        }
    end_answer(&w);
    return got < 0 ? err_set(err, ERR_CORRUPT, "the graph is damaged") : 0;
}

/* --- models ----------------------------------------------------------------------------------- */

static int file_varint(FILE *f, uint64_t *ret)
{
    int c = 0;
    *ret = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if ((c = getc(f)) == EOF)
            return -1;
        *ret |= (uint64_t)(c & 127) << shift;
        if (c < 128)
            return 0;
    }
    return -1;
}

/* Goes to the next field of bytes with this number, `*len` long, at most to the place `end`. 1; 0:
 * there is none; -1: damaged. */
static int file_find(FILE *f, unsigned number, off_t end, uint64_t *len)
{
    uint64_t key;
    while (ftello(f) < end && file_varint(f, &key) == 0) {
        unsigned type = key & 7;
        *len = type == 1 ? 8 : type == 5 ? 4 : 0;
        if ((type != 0 && type != 1 && type != 2 && type != 5) ||
            ((type == 0 || type == 2) && file_varint(f, len)))
            return -1;
        if (type == 0)
            continue;
        off_t left = end - ftello(f); /* less than 0 where the number itself goes on behind it */
        if (left < 0 || *len > (uint64_t)left)
            return -1;
        if (type == 2 && key >> 3 == number)
            return 1;
        if (fseeko(f, (off_t)*len, SEEK_CUR))
            return -1;
    }
    return 0;
}

int model_answer(FILE *f, struct bytes *out, struct err *err)
{
    static const struct node_form form = {.name = 3, .op = 4, .input = 1, .output = 2};
    static const char damaged[] = "the model is damaged, or no ONNX";
    cleanup_bytes struct bytes node = {0};
    struct json_writer w;
    uint64_t len;
    int got = 0;
    if (fseeko(f, 0, SEEK_END))
        return err_set(err, ERR_FAILED, damaged);
    off_t end = ftello(f);
    rewind(f);
    if (file_find(f, 7, end, &len) != 1)
        return err_set(err, ERR_CORRUPT, damaged);
    end = ftello(f) + (off_t)len;
    begin(&w, out);
    for (int n = 0; n < NODES_MAX && (got = file_find(f, 1, end, &len)) == 1; n++) {
        bytes_clear(&node);
        if (len > NODE_MAX)
            return err_set(err, ERR_LIMIT, "a node of the model is longer than %u bytes", NODE_MAX);
        bytes_reserve(&node, (size_t)len);
        if (fread(node.data, 1, (size_t)len, f) < len)
            return err_set(err, ERR_CORRUPT, damaged);
        if (add_node(&w, &form, node.data, (size_t)len, err))
            return -1;
    }
    end_answer(&w);
    return got < 0 ? err_set(err, ERR_CORRUPT, damaged) : 0;
}

/*
 * Graphs: of an event file, and of a model in ONNX, which may be as large as its weights: these are
 * passed over in the file. And what nodes cost in a step that was measured.
 *
 * GraphDef {1 node {1 name, 2 op, 3 inputs}}
 * RunMetadata {1 step_stats {1 dev_stats {1 device, 2 node_stats {1 name, 5 micros, 6 memory
 *              {2 bytes}, 16 nanos}}}}
 * ModelProto {7 graph {1 node {1 inputs, 2 outputs, 3 name, 4 op}}}
 */
#include <string.h>

#include "protobuf.h"
#include "runs-internal.h"

#define NODES_MAX   20000
#define DEVICES_MAX 1000
#define BYTES_MOST  (1ull << 50) /* of a node: what is more is no figure */
#define NODE_MAX    (16u << 20)  /* a constant may lie in a node */
#define NAME_MOST   4096         /* what is longer is cut */
#define TEXT_MOST   (16u << 20)  /* of an answer */

static void add_text(struct json_writer *w, const struct pb_field *f)
{
    jw_strn(w, NULL, f->len ? f->data : "", f->len < NAME_MOST ? f->len : NAME_MOST);
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

int graph_answer(const char *data, size_t len, struct json_writer *w, struct err *err)
{
    static const struct node_form form = {.name = 1, .op = 2, .input = 3};
    struct pb_field f;
    int got, n = 0;
    jw_array(w, "nodes");
    while ((got = pb_next(&data, &len, &f)) == 1 && n < NODES_MAX)
        if (f.number == 1 && f.type == 2) {
            if (add_node(w, &form, f.data, f.len, err))
                return -1;
            n++;
        }
    jw_end(w);
    return got < 0 ? err_set(err, ERR_CORRUPT, "the graph is damaged") : 0;
}

/* --- what nodes cost -------------------------------------------------------------------------- */

struct node_cost {
    struct pb_field name;
    uint64_t micros, nanos, bytes;
};

static bool read_cost(struct pb_field stats, struct node_cost *ret)
{
    struct pb_field f, part;
    int got;
    *ret = (struct node_cost){0};
    while ((got = pb_next(&stats.data, &stats.len, &f)) == 1)
        if (f.number == 1 && f.type == 2)
            ret->name = f;
        else if (f.number == 5 && f.type == 0)
            ret->micros = f.value;
        else if (f.number == 16 && f.type == 0)
            ret->nanos = f.value;
        else if (f.number == 6 && f.type == 2)
            while (pb_next(&f.data, &f.len, &part) == 1)
                if (part.number == 2 && part.type == 0)
                    ret->bytes += part.value < BYTES_MOST ? part.value : BYTES_MOST;
    ret->bytes = ret->bytes < BYTES_MOST ? ret->bytes : BYTES_MOST;
    return got == 0 && ret->name.data;
}

static void add_cost(struct json_writer *w, const struct node_cost *c, size_t device)
{
    jw_array(w, NULL);
    add_text(w, &c->name);
    jw_uint(w, NULL, device);
    jw_num(w, NULL, c->nanos ? (double)c->nanos / 1000 : (double)c->micros);
    jw_uint(w, NULL, c->bytes);
    jw_end(w);
}

/* The next device of StepStats {1 dev_stats {1 device, 2 node_stats}}. */
static bool next_device(struct pb_field *steps, struct pb_field *ret)
{
    while (pb_next(&steps->data, &steps->len, ret) == 1)
        if (ret->number == 1 && ret->type == 2)
            return true;
    return false;
}

static int add_costs_of(struct json_writer *w, struct pb_field device, size_t i, size_t *n,
                        struct err *err)
{
    struct pb_field f;
    struct node_cost c;
    while (*n < NODES_MAX && pb_next(&device.data, &device.len, &f) == 1) {
        if (f.number != 2 || f.type != 2 || !read_cost(f, &c))
            continue;
        add_cost(w, &c, i);
        ++*n;
        if (w->out->len > TEXT_MOST)
            return err_set(err, ERR_LIMIT, "what the graph's nodes cost is too much to be shown");
    }
    return 0;
}

int costs_answer(const struct event_value *v, struct json_writer *w, struct err *err)
{
    struct pb_field steps, device, again, name;
    size_t n = 0, i = 0;
    pb_part(v->data, v->len, 1, &steps);
    jw_object(w, "costs");
    jw_strn(w, "tag", v->tag, v->tag_len);
    jw_array(w, "devices");
    for (again = steps; i < DEVICES_MAX && next_device(&again, &device); i++) {
        pb_part(device.data, device.len, 1, &name);
        add_text(w, &name);
    }
    jw_end(w);
    jw_array(w, "nodes");
    for (i = 0, again = steps; i < DEVICES_MAX && next_device(&again, &device); i++)
        if (add_costs_of(w, device, i, &n, err))
            return -1;
    jw_end(w);
    jw_end(w);
    return 0;
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

int model_answer(FILE *f, struct json_writer *w, struct err *err)
{
    static const struct node_form form = {.name = 3, .op = 4, .input = 1, .output = 2};
    static const char damaged[] = "the model is damaged, or no ONNX";
    cleanup_bytes struct bytes node = {0};
    uint64_t len;
    int got = 0;
    if (fseeko(f, 0, SEEK_END))
        return err_set(err, ERR_FAILED, damaged);
    off_t end = ftello(f);
    rewind(f);
    if (file_find(f, 7, end, &len) != 1)
        return err_set(err, ERR_CORRUPT, damaged);
    end = ftello(f) + (off_t)len;
    jw_array(w, "nodes");
    for (int n = 0; n < NODES_MAX && (got = file_find(f, 1, end, &len)) == 1; n++) {
        bytes_clear(&node);
        if (len > NODE_MAX)
            return err_set(err, ERR_LIMIT, "a node of the model is longer than %u bytes", NODE_MAX);
        bytes_reserve(&node, (size_t)len);
        if (fread(node.data, 1, (size_t)len, f) < len)
            return err_set(err, ERR_CORRUPT, damaged);
        if (add_node(w, &form, node.data, (size_t)len, err))
            return -1;
    }
    jw_end(w);
    return got < 0 ? err_set(err, ERR_CORRUPT, damaged) : 0;
}

/* The trainer's options: rows, and what rows cannot say. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "clock.h"
#include "model.h"
#include "options.h"
#include "ps-wire.h"

#define AT(field) offsetof(struct options, field)
#define INT(field_, dflt_, min_, max_, help_)                                               \
    {                                                                                       \
#field_, CONF_INT, AT(field_), .dflt = dflt_, .arg = "N", .min = min_, .max = max_, \
                                       .help = help_                                        \
    }
#define TEXT(field_, dflt_, arg_, help_)                                            \
    {                                                                               \
#field_, CONF_STRING, AT(field_), .dflt = dflt_, .arg = arg_, .help = help_ \
    }
/* Another name: the default is the first one's. */
#define SAME_INT(name_, field_, min_, max_)                                                        \
    {                                                                                              \
        name_, CONF_INT, AT(field_), .arg = "N", .min = min_, .max = max_, .help = "As --" #field_ \
    }
#define SAME_TEXT(name_, field_, arg_)                                       \
    {                                                                        \
        name_, CONF_STRING, AT(field_), .arg = arg_, .help = "As --" #field_ \
    }
#define LARGE (1ll << 40)

const struct conf_row options_rows[] = {
    TEXT(model, "softmax", "NAME", "softmax, mlp, resnet18, resnet50, or movie (recommender)"),
    TEXT(data, NULL, "DIR", "Samples: a folder (a mounted set), or synthetic:SAMPLES,CLASSES"),
    TEXT(test_data, NULL, "DIR", "Samples to judge the model by after each pass"),
    TEXT(sampler, NULL, "SPEC",
         "Order of the samples (docs/formats/order.md); torch-distributed, shuffled"),
    INT(image, "224", 1, MODEL_IMAGE_MAX, "Height and width of pictures"),
    INT(hidden, "128", 1, MODEL_HIDDEN_MAX, "Width of mlp's layers"),
    INT(batch_size, "32", 1, 1 << 20, "Samples of a rank in a step"),
    INT(num_passes, "1", 1, 100000, "Passes over the data"),
    INT(max_steps, "0", 0, LARGE, "End after so many steps (0: no such end)"),
    INT(seed, "1", 0, LARGE, "Of first weights, order and augmentation"),
    {"skip_bad", CONF_FLAG, AT(skip_bad), .help = "Leave pictures out that cannot be decoded"},

    /* The names that others of our programs have for the same. */
    SAME_INT("epochs", num_passes, 1, 100000),
    SAME_INT("batch-size", batch_size, 1, 1 << 20),
    SAME_INT("workers", loader_threads, 0, 256),
    SAME_TEXT("save-dir", save_dir, "DIR"),
    SAME_TEXT("logdir", log_dir, "DIR"),

    TEXT(optimizer, "momentum", "NAME", "momentum (SGD) or lars"),
    TEXT(learning_rate, "0.01", "X", "Learning rate"),
    TEXT(momentum, "0.9", "X", "Momentum"),
    TEXT(weight_decay, "0.0001", "X", "Weight decay (not of biases, scales and embeddings)"),
    TEXT(label_smoothing, "0", "X", "Share of a label that is spread over all classes"),
    TEXT(ema, "0", "X", "Keep an average of the weights, which judges: 0.999; 0: none"),
    TEXT(schedule, "constant", "NAME", "constant, step or cosine"),
    INT(warmup_passes, "0", 0, 100000, "Passes in which the rate rises from nothing"),
    INT(rate_passes, "30", 1, 100000, "step: passes between changes of the rate"),
    TEXT(rate_factor, "0.1", "X", "step: what the rate is multiplied by"),

    TEXT(device, "auto", "NAME", "auto, cpu, cuda or cuda:N"),
    TEXT(precision, "auto", "NAME", "On a GPU: fp32, tf32, bf16, or auto (bf16 where it can)"),
    INT(use_gpu, "-1", -1, 1, "0: --device cpu; 1: --device cuda"),
    INT(trainer_count, "1", 1, 1024, "Threads that compute"),
    INT(loader_threads, "0", 0, 256, "Threads that read and decode (0: one a core)"),
    INT(local, "1", 0, 1, "0: learn with the servers of --pservers"),
    INT(trainer_id, "-1", -1, 4095, "This rank (-1: the launcher's environment says)"),
    INT(num_gradient_servers, "-1", -1, 4096, "Ranks (-1: the launcher's environment says)"),
    TEXT(rendezvous, NULL, "WHERE", "Where ranks meet: HOST:PORT of rank 0, or file:///PATH"),
    {"rendezvous_timeout", CONF_DURATION, AT(rendezvous_timeout), .dflt = "5m", .arg = "TIME",
     .min = NS_PER_S, .help = "How long ranks wait for each other at the start"},
    {"collective_timeout", CONF_DURATION, AT(collective_timeout), .dflt = "5m", .arg = "TIME",
     .min = NS_PER_S, .help = "How long a step waits for the other ranks"},

    TEXT(save_dir, NULL, "DIR", "Folder for checkpoints (none are made without)"),
    TEXT(resume, "auto", "auto|never|DIR",
         "auto: go on from the newest checkpoint of --save_dir; never: begin anew; DIR: go on from "
         "this checkpoint, or the newest in this folder"),
    {"accept_classes", CONF_FLAG, AT(accept_classes),
     .help = "Go on from a checkpoint although its classes had other names"},
    INT(saving_period, "1", 0, 100000, "Passes between checkpoints (0: only by batches)"),
    INT(saving_period_by_batches, "0", 0, LARGE, "Batches between checkpoints within a pass"),
    INT(keep, "3", 0, 100000, "Checkpoints that are kept (0: all)"),
    TEXT(log_dir, NULL, "DIR", "Folder for curves (TensorBoard and VisualDL) and train.jsonl"),
    INT(log_period, "100", 1, LARGE, "Batches between lines of the log"),
    INT(dot_period, "0", 0, LARGE, "Batches between dots in the log (0: none)"),
    INT(test_period, "1", 1, 100000, "Passes between looks at --test_data"),
    INT(histogram_period, "1", 0, 100000, "Passes between histograms of weights (0: none)"),
    TEXT(progress, "auto", "WHEN", "A line that is drawn over again: auto (a terminal), yes, no"),
    {"json", CONF_FLAG, AT(json),
     .help = "Each period, pass and the end as one JSON object a line, on standard output"},
    TEXT(log_level, "info", "LEVEL", "error, warn, info or debug"),
    TEXT(log_format, "text", "FORM", "text or json"),

    TEXT(pservers, NULL, "LIST", "Hosts of parameter servers, the same order on all (--local=0)"),
    INT(port, "7164", 1, 65535, "The first port of a parameter server"),
    INT(ports_num, "1", 1, 64, "Its ports for dense parameters"),
    INT(ports_num_for_sparse, "0", 0, 64,
        "Its ports for rows of embeddings, after those (0: the same ports)"),
    TEXT(job_name, NULL, "ps|worker", "What this task is, among --ps_hosts and --worker_hosts"),
    INT(task_index, "0", 0, 4095, "Which of them"),
    TEXT(ps_hosts, NULL, "LIST", "HOST:PORT of the parameter servers"),
    TEXT(worker_hosts, NULL, "LIST", "HOST:PORT of the trainers"),
    TEXT(address, NULL, "IP", "A parameter server's own address (all of this machine's)"),
    {"own_data", CONF_FLAG, AT(own_data),
     .help = "Each trainer's --data holds its own samples alone, as `split` deals them"},
    {"async", CONF_FLAG, AT(async),
     .help = "With parameter servers: each trainer's step counts when it comes, nobody waits for "
             "others, and one that dies (but trainer 0) is done without"},
    TEXT(ps_token_file, NULL, "FILE",
         "What parameter servers and their trainers know, and nobody else: one line, 16 or more "
         "characters; the same on all"),
    TEXT(nics, NULL, "NAME", "Without effect: the address says which network is used"),
    TEXT(comment, "", "TEXT", "Of which job: servers refuse trainers of another"),
};
const size_t options_n_rows = sizeof options_rows / sizeof options_rows[0];

/* A file in Python's syntax has quotes around texts. */
static void unquote(struct options *o)
{
    for (size_t i = 0; i < options_n_rows; i++) {
        if (options_rows[i].type != CONF_STRING)
            continue;
        char **text = (char **)((char *)o + options_rows[i].offset);
        size_t n = *text ? strlen(*text) : 0;
        if (n >= 2 && strchr("\"'", (*text)[0]) && (*text)[n - 1] == (*text)[0]) {
            (*text)[n - 1] = '\0';
            ++*text;
        }
    }
}

static int number(const char *name, const char *text, double min, double max, double *ret,
                  struct err *err)
{
    char *end;
    double x = strtod(text, &end);
    if (end == text || *end || !(x >= min && x <= max))
        return err_set(err, ERR_USAGE, "--%s: %s: want a number of %g to %g", name, text, min, max);
    *ret = x;
    return 0;
}

/* If all stays in each step, an average never moves, and a velocity never fades. */
#define MOST_KEPT 0.999999

static int one_of(const char *name, const char *text, const char *a, const char *b, const char *c,
                  struct err *err)
{
    if (strcmp(text, a) == 0 || strcmp(text, b) == 0 || (c && strcmp(text, c) == 0))
        return 0;
    return err_set(err, ERR_USAGE, "--%s: %s: want %s%s%s or %s", name, text, a, c ? ", " : "",
                   c ? c : "", b);
}

/* What a variable of a script that is not set leaves is no folder. */
static int check_folders(const struct options *o, struct err *err)
{
    const struct {
        const char *name, *value;
    } folders[] = {{"data", o->data},
                   {"test_data", o->test_data},
                   {"save_dir", o->save_dir},
                   {"log_dir", o->log_dir}};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        if (folders[i].value && !*folders[i].value)
            return err_set(err, ERR_USAGE, "--%s: empty: want a folder", folders[i].name);
    if (!*o->resume)
        return err_set(err, ERR_USAGE, "--resume: empty: want auto, never or a folder");
    return 0;
}

static int check(struct options *o, struct err *err)
{
    enum precision precision;
    if (number("learning_rate", o->learning_rate, 0, 1e6, &o->rate, err) ||
        number("momentum", o->momentum, 0, MOST_KEPT, &o->momentum_number, err) ||
        number("weight_decay", o->weight_decay, 0, 1, &o->decay, err) ||
        number("label_smoothing", o->label_smoothing, 0, 0.999, &o->smoothing, err) ||
        number("ema", o->ema, 0, MOST_KEPT, &o->ema_keep, err) ||
        number("rate_factor", o->rate_factor, 0, 10, &o->factor, err) ||
        precision_parse(&precision, o->precision, err) ||
        one_of("optimizer", o->optimizer, "momentum", "lars", NULL, err) ||
        one_of("progress", o->progress, "auto", "no", "yes", err) ||
        one_of("log_format", o->log_format, "text", "json", NULL, err) || check_folders(o, err))
        return -1;
    if (strlen(o->comment) >= PS_NAME) /* what is cut off would never be the server's */
        return err_set(err, ERR_USAGE, "--comment: longer than %d letters", PS_NAME - 1);
    if (o->use_gpu >= 0)
        o->device = o->use_gpu ? "cuda" : "cpu";
    return 0;
}

int options_read(struct options *ret, struct conf **ret_conf, int argc, char **argv,
                 struct err *err)
{
    *ret = (struct options){0};
    if (conf_parse(ret_conf, options_rows, options_n_rows, ret, argc, argv, err))
        return -1;
    if (conf_help_asked(*ret_conf))
        return 0;
    if (conf_n_args(*ret_conf) > 0)
        return err_set(err, ERR_USAGE, "%s: an option without its name (--data DIR?)",
                       conf_arg(*ret_conf, 0));
    unquote(ret);
    return check(ret, err);
}

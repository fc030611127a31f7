/*
 * meddle [OPTIONS] -- PROGRAM ARGS…
 *   --below DIR       only calls about files below it count (up to 8 of them); calls that map no
 *                     file and threads count from the first of these on
 *   --calls WORDS open,read,write,sync,mmap,memory,thread,rename,unlink,make,size,stat,lock,list
 *   --nth N           which of them; 0: none, they are only counted
 *   --sticky          and all that follow
 *   --while FILE      all calls made while FILE is there; with --nth: they alone are counted
 *   --fail ERRNO | --short | --kill | --signal NAME
 *                     the call fails, moves half of the bytes, the program is killed before it, or
 *                     the process that makes it gets that signal (TERM, INT, HUP)
 *   --record LOG      instead of all that: writes down what happens to the folders
 *   --timeout S       a program that runs longer hangs (300)
 *
 * Prints, last on stderr: meddle: {"seen":N,"hits":N,"hit":"CALL PATH","end":"exit 0"}
 * Exit 0: the program exited or was killed by us, whatever its code; it is in the line. 1: it hung.
 * 2: usage. 125: it could not be started or traced.
 */
#include "meddle.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct error_name {
    const char *name;
    int code;
} errors[] = {
    {"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EROFS", EROFS},   {"EMFILE", EMFILE},
    {"ENFILE", ENFILE}, {"ENOMEM", ENOMEM}, {"EACCES", EACCES}, {"EAGAIN", EAGAIN},
    {"ENOLCK", ENOLCK}, {"EINTR", EINTR},   {"EDQUOT", EDQUOT}, {"ENODEV", ENODEV},
};

static int parse_error(const char *word)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (strcmp(word, errors[i].name) == 0)
            return errors[i].code;
    return -1;
}

static int parse_signal(const char *word)
{
    static const int all[] = {SIGTERM, SIGINT, SIGHUP, SIGKILL};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(word, sigabbrev_np(all[i])) == 0)
            return all[i];
    return -1;
}

static int parse_calls(struct meddling *m, char *words)
{
    char *rest = NULL;
    for (char *w = strtok_r(words, ",", &rest); w; w = strtok_r(NULL, ",", &rest)) {
        enum call_class class;
        if (call_class_parse(w, &class))
            return -1;
        m->classes[class] = true;
    }
    return 0;
}

static int add_below(struct meddling *m, const char *dir)
{
    if (m->n_below == BELOW_MAX)
        return -1;
    m->below[m->n_below] = realpath(dir, NULL);
    return m->below[m->n_below++] ? 0 : -1;
}

static int take_option(struct meddling *m, int c, const char **log)
{
    switch (c) {
    case 'b':
        return add_below(m, optarg);
    case 'm':
        m->name = optarg;
        return 0;
    case 'c':
        return parse_calls(m, optarg);
    case 'n':
        m->nth = strtoull(optarg, NULL, 10);
        return 0;
    case 's':
        m->sticky = true;
        return 0;
    case 'w':
        m->while_file = optarg;
        return 0;
    case 'f':
        m->action = ACT_FAIL;
        m->error = parse_error(optarg);
        return m->error > 0 ? 0 : -1;
    case 'h':
        m->action = ACT_SHORT;
        return 0;
    case 'k':
        m->action = ACT_KILL;
        return 0;
    case 'g':
        m->action = ACT_SIGNAL;
        m->signal = parse_signal(optarg);
        return m->signal > 0 ? 0 : -1;
    case 'r':
        m->action = ACT_RECORD;
        *log = optarg;
        return 0;
    case 't':
        m->timeout_s = strtod(optarg, NULL);
        return m->timeout_s > 0 ? 0 : -1;
    default:
        return -1;
    }
}

static int parse_options(struct meddling *m, int argc, char **argv, const char **log)
{
    static const struct option known[] = {
        {"below", 1, NULL, 'b'},  {"name", 1, NULL, 'm'},   {"calls", 1, NULL, 'c'},
        {"nth", 1, NULL, 'n'},    {"sticky", 0, NULL, 's'}, {"while", 1, NULL, 'w'},
        {"fail", 1, NULL, 'f'},   {"short", 0, NULL, 'h'},  {"kill", 0, NULL, 'k'},
        {"signal", 1, NULL, 'g'}, {"record", 1, NULL, 'r'}, {"timeout", 1, NULL, 't'},
        {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "+", known, NULL)) >= 0;)
        if (take_option(m, c, log))
            return -1;
    return optind < argc ? 0 : -1;
}

static void report(const struct meddling *m, const struct outcome *end)
{
    static const char *const how[] = {"exit", "signal", "hang"};
    for (char *p = (char *)m->hit; *p; p++)
        if (*p == '"' || *p == '\\' || (unsigned char)*p < ' ')
            *p = '?';
    fprintf(stderr, "meddle: {\"seen\":%llu,\"hits\":%llu,\"hit\":\"%s\",\"end\":\"%s %d\"}\n",
            (unsigned long long)m->seen, (unsigned long long)m->hits, m->hit, how[end->how],
            end->code);
}

int main(int argc, char **argv)
{
    static struct meddling m = {.timeout_s = 300};
    struct outcome end = {0};
    const char *log = NULL;
    if (parse_options(&m, argc, argv, &log) || (log && !m.n_below)) {
        fprintf(stderr, "meddle: usage: see the head of tests/torture/meddle.c\n");
        return 2;
    }
    if ((log && record_begin(log, m.below, m.n_below)) || trace_run(&m, argv + optind, &end) ||
        (log && record_end())) {
        fprintf(stderr, "meddle: %s\n", strerror(errno));
        return 125;
    }
    report(&m, &end);
    return end.how == END_HANG ? 1 : 0;
}

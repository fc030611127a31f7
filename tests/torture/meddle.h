/*
 * meddle: runs a program and gets between it and the kernel (ptrace, and a seccomp filter that
 * stops it at the chosen calls alone): fails, shortens or kills at the n-th call, or records what
 * happens to folders. It sees calls however they are made: by libraries, by static programs, by
 * children.
 */
#ifndef SAMPAN_TORTURE_MEDDLE_H
#define SAMPAN_TORTURE_MEDDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* --- calls.c: the calls that are known ------------------------------------------------------- */

enum call_class {
    CALL_OPEN,
    CALL_READ,
    CALL_WRITE,
    CALL_SYNC,
    CALL_MMAP,   /* of a file */
    CALL_MEMORY, /* mapping nothing: memory, stacks */
    CALL_THREAD,
    CALL_RENAME,
    CALL_UNLINK,
    CALL_MAKE, /* folders and links */
    CALL_SIZE, /* ftruncate, fallocate */
    CALL_STAT,
    CALL_LOCK,
    CALL_LIST, /* getdents */
    CALL_MARK, /* "mark:TEXT" asked for by access(): the program tells where it is */
    CALL_UNMAP,
    CALL_CLASSES
};

struct call_kind {
    int nr;
    const char *name;
    enum call_class class;
    signed char fd;    /* argument that is the descriptor it works on, or -1 */
    signed char path;  /* argument that is a path, or -1; dirfd: what it is relative to, or -1 */
    signed char dirfd; /* -1: the working folder */
    signed char path2, dirfd2; /* of the second name */
};

extern const struct call_kind call_kinds[];
extern const size_t n_call_kinds;

const struct call_kind *call_find(int nr);
int call_class_parse(const char *word, enum call_class *ret);
const char *call_class_name(enum call_class class);

/* --- one call, stopped at its entry ---------------------------------------------------------- */

#define PATHS_BYTES 4200

struct call {
    const struct call_kind *kind;
    pid_t tid;
    uint64_t args[6];
    char path[PATHS_BYTES], path2[PATHS_BYTES]; /* absolute, or "" */
};

/* Reads the tracee: how many bytes were there. */
size_t tracee_read(pid_t tid, uint64_t from, void *to, size_t len);
bool tracee_text(pid_t tid, uint64_t from, char *to, size_t room);
bool path_below(const char *path, const char *folder);

/* --- trace.c --------------------------------------------------------------------------------- */

#define BELOW_MAX 8

enum action { ACT_COUNT, ACT_KILL, ACT_SIGNAL, ACT_FAIL, ACT_SHORT, ACT_RECORD };

struct meddling {
    enum action action;
    bool classes[CALL_CLASSES];
    uint64_t nth; /* 0: never */
    bool sticky;  /* all from the n-th on */
    int error;
    int signal;             /* of ACT_SIGNAL */
    const char *while_file; /* only while this file is there; or NULL */
    char *below[BELOW_MAX]; /* real paths; none: every call counts */
    size_t n_below;
    const char *name; /* a pattern of the last part of their paths; or NULL */
    double timeout_s;

    bool armed; /* a path below was named: the program's start is over */
    uint64_t seen, hits;
    char hit[2 * PATHS_BYTES + 100]; /* the first call that was hit, in words */
};

enum ending { END_EXIT, END_SIGNAL, END_HANG };
struct outcome {
    enum ending how;
    int code; /* exit code or signal */
};
/* -1: it could not be started or traced. */
int trace_run(struct meddling *m, char **argv, struct outcome *ret);

/* --- record.c -------------------------------------------------------------------------------- */

int record_begin(const char *file, char *const *below, size_t n_below);
/* At the entry; true: wants to see the end of the call too, and gave `ret` what it needs then. */
struct recorded {
    uint64_t covers; /* ops that were there when a sync began */
    bool existed;    /* what an open names was there before */
};
void record_entry(const struct call *c, struct recorded *ret);
void record_exit(const struct call *c, const struct recorded *r, int64_t result);
int record_end(void);

#endif

/* remove.c finds and orders, remove-work.c does it, remove-trash.c knows the trash. */
#ifndef SAMPAN_TRANSFER_REMOVE_INTERNAL_H
#define SAMPAN_TRANSFER_REMOVE_INTERNAL_H

#include <sys/stat.h>

#include "buf.h"
#include "fetch.h"
#include "mem.h"
#include "remove.h"
#include "sort.h"
#include "sync.h"

struct names {
    char **list;
    size_t n, cap;
};
void names_add(struct names *s, const char *name);
void names_release(struct names *s);
/* What lies in a folder before the folder. */
void names_deepest_first(struct names *s);

struct removal {
    struct store *parent; /* keys below are relative to it */
    struct store *folder; /* all below it goes; its keys have `name`/ before them in the parent */
    struct fetch *fetch;
    char *name;          /* "" where the parent itself is meant */
    bool named_folder;   /* the URI ended in '/': an object of that name is not meant */
    bool is_object;      /* there is an object (or file, or link) of that very name */
    bool is_folder;      /* there is something below it, or a local folder of that name */
    struct sorter *keys; /* of objects, relative to the parent -> size */
    struct names folders;
};

/* remove-work.c: removes the keys of a sorter and then the folders. `trash` "": for good; otherwise
 * the folder, relative to the parent, that they are copied into first. */
int remove_keys(struct removal *r, struct sorter *keys, struct names *folders, const char *trash,
                const struct remove_watch *watch, struct remove_counts *counts, struct err *err);

/* Was it told to stop? `watch` may be NULL. */
bool remove_is_over(const struct remove_watch *watch);
/* The same of who first hears how far it is, ten times a second at most. `told_ns`: when, at first
 * 0. */
bool remove_told_to_stop(const struct remove_watch *watch, const struct remove_counts *so_far,
                         uint64_t *told_ns);

/* remove-trash.c */
/* ".trash/TIME-N/" of now. Called after trash_expire(), which hears the store's clock. */
char *trash_folder(const struct removal *r);
void trash_expire(struct removal *r, const struct remove_watch *watch,
                  struct remove_counts *counts);
bool store_renames(const struct store *s);

#endif

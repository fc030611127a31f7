/*
 * Files below a folder, in the order of the sorted class-folder walk, and which of them are
 * numbered (docs/formats/catalog.md, "Order and numbers").
 */
#ifndef SAMPAN_WALK_H
#define SAMPAN_WALK_H

#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "err.h"

/* Paths below the folder; they lie one after the other in `text`, each ended by NUL and with the
 * file's inode number before it. */
struct file_list {
    struct bytes text;
    uint64_t *at; /* where each path starts */
    size_t n, cap;
};
void file_list_add(struct file_list *l, const char *path, size_t len, uint64_t inode);
void file_list_release(struct file_list *l);
static inline const char *file_list_get(const struct file_list *l, size_t i)
{
    return l->text.data + l->at[i];
}
uint64_t file_list_inode(const struct file_list *l, size_t i); /* 0: unknown */
#define cleanup_file_list CLEANUP(file_list_release)

/* All files below `dir`: by first-level folder, then by the folder's whole path, then by name. */
int file_list_walk(struct file_list *ret, const char *dir, struct err *err);
/* Keeps those that Paddle's DatasetFolder and torch's ImageFolder number. Pure. */
void file_list_numbered(struct file_list *l);
/* The folders in `dir` itself, by name: the classes, those without a sample as well. */
int file_list_classes(struct file_list *ret, const char *dir, struct err *err);

#endif

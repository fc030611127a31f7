/*
 * Files that have their name before they are durable: whoever makes a large file need not wait for
 * the disk before it is used.
 *
 * FILE.early, durable before FILE has its name, says in which boot that was. As long as it is
 * there, FILE is good in that boot alone; in any later one it is lost, whatever lies there. It goes
 * when FILE is durable. Killed anywhere in between, nothing is believed that a power cut may have
 * damaged; at worst something good is made again.
 */
#ifndef SAMPAN_BASE_EARLY_H
#define SAMPAN_BASE_EARLY_H

#include <stdbool.h>

#include "err.h"

#define EARLY_SUFFIX ".early"
#define BOOT_ID_LEN  36

/* What names this boot of the machine, padded with NULs; all NUL: nobody says. */
void boot_id_read(char ret[40]);

/* Before the file has its name; one that is lost is removed. Several may mark one file at once.
 * Fails also where nobody tells boots apart. */
int early_mark(const char *file, struct err *err);
bool early_is_marked(const char *file);
/* It was named in another boot, and never became durable. */
bool early_is_lost(const char *file);
/* Makes it durable, its name too, and takes the mark away. */
int early_settle(const char *file, struct err *err);
/* Removes the file with its mark. */
void early_remove(const char *file);

#endif

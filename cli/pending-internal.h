/* What a mount that can be written still owes to its store (pending.c). */
#ifndef SAMPAN_CLI_PENDING_INTERNAL_H
#define SAMPAN_CLI_PENDING_INTERNAL_H

#include "cli-internal.h"

/* "3 files of 1.5 MiB not stored yet, 1 failed (a/b: denied)" from status' "pending". */
void pending_text(const struct json *pending, struct bytes *out);
/* Waits until nothing is owed; after two seconds says on stderr, as `verb`, what is waited for.
 * `torn`: what the machine's stop may have torn is stored as it is, else it stays pending. */
int pending_flush(const struct control_mount *m, const char *verb, bool torn, struct err *err);
/* Appends that text and returns true if anything is pending. */
bool pending_of(const struct control_mount *m, struct bytes *ret);

#endif

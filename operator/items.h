/*
 * The items of a list of the API server, each a text of its own: one that does not parse (a NUL in
 * a string, nesting without end: whoever may make an object can write that) hides no other.
 */
#ifndef SAMPAN_OPERATOR_ITEMS_H
#define SAMPAN_OPERATOR_ITEMS_H

#include "buf.h"

/* Calls `each` for every object in the array `items` of the text's object, and appends the list
 * without them to `rest`. Brackets and strings are counted, nothing else is looked at: where the
 * text is no JSON, `rest` is none. Pure. */
void items_cut(const char *text, size_t len,
               void (*each)(void *arg, const char *item, size_t item_len), void *arg,
               struct bytes *rest);

#endif

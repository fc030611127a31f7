/*
 * A reader for the small XML that object stores answer with. It works on bytes in memory, does not
 * recurse, keeps a bounded stack of names and resolves no entity but the five that XML knows and
 * character numbers; a document type with declarations of its own is refused.
 *
 * xml_next() gives XML_OPEN when an element begins and XML_CLOSE when it ends; at a close, `text`
 * holds the character data since that element's own begin tag, if it has no children. Names come
 * without their namespace's prefix.
 */
#ifndef SAMPAN_LIST_XML_INTERNAL_H
#define SAMPAN_LIST_XML_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"
#include "err.h"

#define XML_DEPTH_MAX 16
#define XML_TEXT_MAX  (64u << 10) /* no key, token or message is that long */

enum xml_event { XML_END, XML_OPEN, XML_CLOSE, XML_BAD };

struct xml_name {
    const char *text;
    size_t len;
};

struct xml {
    const char *start, *at, *end;
    struct xml_name stack[XML_DEPTH_MAX]; /* of elements that are open */
    unsigned depth;                       /* how many */
    struct xml_name name;                 /* of the event's element */
    bool closes_itself;                   /* "<a/>" was opened: the close is still to come */
    bool closed;                          /* the last event was a close: its text is used up */
    bool has_root;
    struct bytes text;
    const char *why; /* after XML_BAD */
};

void xml_init(struct xml *x, const void *data, size_t len);
void xml_release(struct xml *x);
#define cleanup_xml CLEANUP(xml_release)

enum xml_event xml_next(struct xml *x);
bool xml_is(const struct xml_name *n, const char *name);
/* The element around the event's element: after XML_CLOSE of a root's child, the root. */
bool xml_parent_is(const struct xml *x, const char *name);
/* The text of the event's element, in place of what was there. */
void xml_take(struct bytes *to, const struct xml *x);
/* Fills `err` after XML_BAD: "what: not XML at byte 12: why". Returns -1. */
int xml_error(const struct xml *x, const char *what, struct err *err);

/* At '&': appends what the entity means and gives its length, or 0 if there is no such entity. */
size_t xml_entity(struct bytes *out, const char *p, const char *end);

/* The text of the first element called `name`, anywhere; false if there is none. */
bool xml_find(const void *data, size_t len, const char *name, struct bytes *ret);

/* Appends `text` with what XML does not take bare as entities. */
void xml_escape(struct bytes *out, const char *text, size_t len);

#endif

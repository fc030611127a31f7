/* Many folders of a page as few spans: see list-internal.h. */
#include <string.h>

#include "list-internal.h"
#include "mem.h"

void key_beyond(struct bytes *key)
{
    if (key->len && key->data[key->len - 1] == '/')
        key->data[key->len - 1] = '/' + 1;
}

static bool ascend(const struct span *last, size_t *ret_n)
{
    size_t n = 0;
    bool in_order = true;
    for (const struct span *s = last; s; s = s->next, n++)
        in_order &= !s->next || strcmp(s->next->prefix, s->prefix) < 0;
    *ret_n = n;
    return in_order;
}

/* How many folders a row is to have: 1 where they are few, or where nothing is known of an order.
 */
static size_t row_length(struct lister *me)
{
    struct listing *l = me->l;
    size_t n, rows = 2 * (size_t)l->n_threads;
    if (!ascend(me->below, &n) || n <= rows ||
        atomic_load_explicit(&l->walks_anew, memory_order_relaxed))
        return 1;
    ACQUIRE(&l->lock);
    return l->n_spans >= rows ? n : (n + rows - 1) / rows; /* all have work: the rest is one */
}

void rows_push(struct lister *me, const char *after)
{
    size_t length = row_length(me);
    const char *level = me->span->prefix;
    struct span *last;
    while ((last = me->below) && length > 1) {
        cleanup_bytes struct bytes from = {0}, end = {0};
        bytes_add_str(&end, last->prefix);
        bytes_add_char(&end,
                       '\xff'); /* beyond all that is below; no key has it, nobody is sent it */
        size_t n = 0;
        for (; me->below && n < length; n++) {
            struct span *folder = me->below;
            me->below = folder->next;
            span_free(folder);
        }
        bytes_add_str(&from, me->below ? me->below->prefix : after);
        key_beyond(&from);
        struct span *row = span_new(level, strlen(level), from.data, end.data);
        row->n_folders = n;
        listing_push(me->l, row);
    }
    while ((last = me->below)) {
        me->below = last->next;
        listing_push(me->l, last);
    }
}

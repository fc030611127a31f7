/*
 * Memory: the policy, and the bounded pool.
 *
 * Policy. Data (samples, bodies) comes only from a `struct pool`, which can refuse: its limit is a
 * bound that holds. Small control allocations use the xalloc family, which ends the process with a
 * message when the system has no memory: a keeper restarts the owner, and a command simply fails.
 */
#ifndef SAMPAN_BASE_MEM_H
#define SAMPAN_BASE_MEM_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"

void *xmalloc(size_t size);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t size);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t n);
__attribute__((format(printf, 1, 2))) char *xasprintf(const char *fmt, ...);
__attribute__((format(printf, 1, 0))) char *xvasprintf(const char *fmt, va_list ap);
/* Ends the process as the xalloc family does: for libraries that fail for want of memory alone. */
_Noreturn void mem_exhausted(void);

/*
 * A pool of buffers whose capacities never add up to more than `limit`. Released memory is kept for
 * reuse within the limit (size classes), so that a steady load makes no system call and touches no
 * fresh page. All functions may be called from any thread.
 */
struct pool *pool_new(size_t limit);
void pool_free(struct pool *p); /* all buffers must be back; asserts it */

/*
 * A buffer with at least `cap` bytes and len 0, or NULL and an errno. EAGAIN: not now; when a
 * buffer comes back, or the limit is raised, on_space is called. ENOMEM: the system has no memory
 * and no buffer is out that could come back, so that nobody would be called.
 */
struct buf *pool_get(struct pool *p, size_t cap);

size_t pool_used(const struct pool *p);
size_t pool_limit(const struct pool *p);
void pool_set_limit(struct pool *p, size_t limit);
void pool_trim(struct pool *p); /* gives idle memory back to the system */

/*
 * Called (without any lock held, on the thread that released) each time memory came back while a
 * pool_get() had been told to wait since the last call. One listener a pool.
 */
void pool_on_space(struct pool *p, void (*fn)(void *arg), void *arg);

#endif

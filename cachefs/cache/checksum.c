/*
 * Sums of records, and the guard around touching mapped pages.
 *
 * A page of a mapped file that the disk cannot deliver, or that lies beyond the end of a file
 * somebody cut, raises SIGBUS. guard_run() turns that into a false. The handler is the one piece of
 * state that belongs to the process: it is installed once, acts only on threads inside guard_run(),
 * and passes every other SIGBUS on to whatever was there before.
 */
#include "cache-internal.h"

#include <setjmp.h>
#include <signal.h>

#include "hash.h"

static _Thread_local sigjmp_buf *armed;
static struct sigaction before; /* written once, before the handler can run */

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
    if (armed)
        siglongjmp(*armed, 1);
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(sig, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(sig);
    } else {
        signal(SIGBUS, SIG_DFL); /* the access is tried again on return, and ends the process */
    }
}

static void install(void)
{
    struct sigaction sa = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigemptyset(&sa.sa_mask);
    sigaction(SIGBUS, NULL, &before);
    sigaction(SIGBUS, &sa, NULL);
}

void guard_install(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
}

bool guard_run(void (*fn)(void *arg), void *arg)
{
    sigjmp_buf here;
    sigjmp_buf *volatile outer = armed;
    if (sigsetjmp(here, 0)) { /* SA_NODEFER: the mask never changed … */
        sigset_t bus;         /* … unless somebody wraps handlers, as the thread sanitizer does */
        sigemptyset(&bus);
        sigaddset(&bus, SIGBUS);
        pthread_sigmask(SIG_UNBLOCK, &bus, NULL);
        armed = outer;
        return false;
    }
    armed = &here;
    fn(arg);
    armed = outer;
    return true;
}

static uint32_t record_crc(const struct record_head *head, const struct chunk *table)
{
    uint32_t crc = crc32c(0, head, sizeof *head - sizeof head->crc);
    return crc32c(crc, table, (size_t)head->chunks * sizeof *table);
}

void record_seal(struct record_head *head, const struct chunk *table)
{
    head->crc = record_crc(head, table);
}

/* Nothing of a head may be believed before this: `table` must have room for CHUNKS_MAX. */
bool record_ok(const struct record_head *head, const struct chunk *table)
{
    if (head->magic != RECORD_MAGIC || head->chunks > CHUNKS_MAX || head->raw > UNIT_BYTES ||
        head->chunks != chunks_of(head->raw) || head->stored > head->raw)
        return false;
    if (record_crc(head, table) != head->crc)
        return false;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < head->chunks; i++) {
        if (table[i].stored > chunk_len(head->raw, i))
            return false;
        sum += table[i].stored;
    }
    return sum == head->stored;
}

/*
 * The guard around touching mapped pages. The handler is the one piece of state that belongs to the
 * process: it is installed once, acts only on threads inside guard_run(), and passes every other
 * SIGBUS on to whatever was there before.
 */
#include "guard.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

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

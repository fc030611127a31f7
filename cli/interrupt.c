/* Commands that end in order when they are interrupted. */
#include <signal.h>

#include "cli-internal.h"

static atomic_bool interrupted;

static void on_signal(int signal)
{
    (void)signal;
    atomic_store(&interrupted, true);
}

const atomic_bool *catch_interrupts(void)
{
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    return &interrupted;
}

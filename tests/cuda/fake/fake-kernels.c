/* Runs a kernel on the host: each thread of each block in turn; where a kernel has barriers, each
 * thread of a block is a fiber, and a barrier goes to the next one. */
#include <setjmp.h>
#include <stdlib.h>
#include <ucontext.h>

#include "parts.h"

#define FIBERS 1024
#define STACK  (32 * 1024)

struct fake_dim fake_grid, fake_block, fake_block_at, fake_thread_at;

/* Fibers are entered once by their context and then switched by what costs no system call, but for
 * the address sanitizer, which must know of each switch. */
#if defined(__SANITIZE_ADDRESS__)
#define SWITCHES_CONTEXTS 1
#else
#define SWITCHES_CONTEXTS 0
#endif

static struct {
    ucontext_t context[FIBERS], home;
    jmp_buf at[FIBERS], back;
    char *stacks;
    struct fake_dim place[FIBERS];
    bool done[FIBERS];
    unsigned now, made, started;
    const struct fake_kernel *kernel;
    void **args;
} fibers;

static void leave(void)
{
#if SWITCHES_CONTEXTS
    swapcontext(&fibers.context[fibers.now], &fibers.home);
#else
    if (_setjmp(fibers.at[fibers.now]) == 0)
        _longjmp(fibers.back, 1);
#endif
}

void fake_barrier(void)
{
    leave();
    fake_thread_at = fibers.place[fibers.now];
}

/* A fiber lives as long as the process and runs one thread after another. */
static void fiber(void)
{
    for (;;) {
        fake_thread_at = fibers.place[fibers.now];
        fibers.kernel->call(fibers.args);
        fibers.done[fibers.now] = true;
        leave();
    }
}

static void enter(unsigned i)
{
    bool first = i >= fibers.started;
    fibers.now = i;
    if (first)
        fibers.started = i + 1;
#if SWITCHES_CONTEXTS
    swapcontext(&fibers.home, &fibers.context[i]);
#else
    if (_setjmp(fibers.back) == 0) {
        if (first)
            setcontext(&fibers.context[i]);
        _longjmp(fibers.at[i], 1);
    }
#endif
}

/* All threads to the next barrier; false: all are at their end. A thread that ends while another
 * waits at a barrier would hang a GPU: it is a failure here. */
static bool round_of(unsigned n)
{
    unsigned ended = 0;
    for (unsigned i = 0; i < n; i++) {
        if (!fibers.done[i])
            enter(i);
        ended += fibers.done[i];
    }
    if (ended != 0 && ended != n)
        fake.wrong++;
    return ended != n;
}

static void make_fibers(unsigned n)
{
    if (!fibers.stacks)
        fibers.stacks = malloc((size_t)FIBERS * STACK);
    for (; fibers.made < n; fibers.made++) {
        ucontext_t *c = &fibers.context[fibers.made];
        getcontext(c);
        c->uc_stack.ss_sp = fibers.stacks + (size_t)fibers.made * STACK;
        c->uc_stack.ss_size = STACK;
        c->uc_link = NULL;
        makecontext(c, fiber, 0);
    }
}

static void run_block(const struct fake_kernel *k, void **args)
{
    unsigned n = fake_block.x * fake_block.y;
    make_fibers(n);
    fibers.kernel = k;
    fibers.args = args;
    for (unsigned i = 0; i < n; i++) {
        fibers.done[i] = false;
        fibers.place[i] = (struct fake_dim){i % fake_block.x, i / fake_block.x, 0};
    }
    while (round_of(n))
        ;
}

static void run_threads(const struct fake_kernel *k, void **args)
{
    for (fake_thread_at.y = 0; fake_thread_at.y < fake_block.y; fake_thread_at.y++)
        for (fake_thread_at.x = 0; fake_thread_at.x < fake_block.x; fake_thread_at.x++)
            k->call(args);
}

void fake_run_kernel(const struct fake_kernel *k, struct fake_dim grid, struct fake_dim block,
                     void **args)
{
    fake_grid = grid;
    fake_block = block;
    for (fake_block_at.y = 0; fake_block_at.y < grid.y; fake_block_at.y++)
        for (fake_block_at.x = 0; fake_block_at.x < grid.x; fake_block_at.x++)
            (k->sync ? run_block : run_threads)(k, args);
}

__attribute__((destructor)) static void end(void)
{
    free(fibers.stacks);
}

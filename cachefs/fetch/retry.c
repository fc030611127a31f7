/* When a failed try is repeated: see retry-internal.h. */
#include "retry-internal.h"

#include "clock.h"

#define MILLI 1000

void retry_budget_init(struct retry_budget *b, uint64_t now_ns)
{
    *b = (struct retry_budget){.milli = RETRY_TOKENS * MILLI, .at_ns = now_ns};
}

static void add_tokens(struct retry_budget *b, int64_t milli)
{
    b->milli += milli;
    if (b->milli > RETRY_TOKENS * MILLI)
        b->milli = RETRY_TOKENS * MILLI;
}

void retry_budget_success(struct retry_budget *b)
{
    add_tokens(b, MILLI);
}

/* Takes one token; returns how long it is until that token exists. */
static uint64_t take_token(struct retry_budget *b, uint64_t now_ns)
{
    const uint64_t milli_ns = NS_PER_S / (RETRY_TOKENS_PER_S * MILLI);
    uint64_t brought = (now_ns - b->at_ns) / milli_ns;
    b->at_ns += brought * milli_ns;
    const uint64_t plenty = (uint64_t)RETRY_TOKENS * MILLI * MILLI;
    add_tokens(b, (int64_t)(brought < plenty ? brought : plenty));
    b->milli -= MILLI;
    return b->milli >= 0 ? 0 : (uint64_t)-b->milli * milli_ns;
}

enum retry_how retry_of_class(enum err_class class)
{
    return class == ERR_TRANSIENT || class == ERR_CORRUPT ? RETRY_PAUSE : RETRY_NEVER;
}

static uint64_t jittered_pause(const struct retry_policy *p, unsigned tries, uint64_t random)
{
    uint64_t most = p->base_ns;
    for (unsigned i = 1; i < tries && most < p->cap_ns; i++)
        most *= 2;
    if (most > p->cap_ns)
        most = p->cap_ns;
    return random % (most + 1);
}

bool retry_decide(const struct retry_policy *p, struct retry_budget *b, const struct retry_ask *ask,
                  uint64_t *ret_pause_ns)
{
    if (ask->how == RETRY_NEVER || ask->tries - ask->excused >= p->max_tries ||
        ask->elapsed_ns >= p->budget_ns)
        return false;
    uint64_t pause = 0;
    if (ask->how == RETRY_PAUSE) {
        pause = jittered_pause(p, ask->tries, ask->random);
        if (pause < ask->server_asks_ns)
            pause = ask->server_asks_ns;
    }
    if (pause >= p->budget_ns - ask->elapsed_ns)
        return false; /* before a token is spent on it */
    uint64_t token = take_token(b, ask->now_ns);
    if (pause < token)
        pause = token;
    if (pause >= p->budget_ns - ask->elapsed_ns) {
        add_tokens(b, MILLI);
        return false;
    }
    *ret_pause_ns = pause;
    return true;
}

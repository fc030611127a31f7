/* How a life ended, and what follows from it: counts, suspects, words. */
#ifndef SAMPAN_KEEPER_DEATHS_INTERNAL_H
#define SAMPAN_KEEPER_DEATHS_INTERNAL_H

#include "state.h"

struct death {
    bool known;         /* else it was not our child: signal and code are 0 */
    bool hung;          /* it was we who killed it */
    bool out_of_memory; /* the kernel did */
    bool answered;      /* it had sent a reply since it began */
    int signal;         /* 0: it ended by itself */
    int code;           /* for the shell: 128 + signal */
};

/* What is compared at its end. */
struct life_start {
    uint64_t answered, oom_kills;
};
struct life_start life_start_look(struct keeper_state *s);
uint64_t life_oom_kills(void); /* of this machine since it booted */

/* One that accuses the requests in hand. */
bool death_is_crash(const struct death *d);
/* Notes it in `part`; true: that was one too many in a row (the brake). */
bool death_count(struct keeper_part *part, const struct death *d);
void death_describe(const struct death *d, char *out, size_t size);

/* Where requests in hand lie, as checked once: a life can change the words in the state. */
struct state_layout {
    uint32_t n_desks;
    uint64_t desks, desk_bytes, slots;
};
struct state_layout state_layout_of(const struct keeper_state *s);
/* Counts one death for each request in hand, and forgets the suspects that were not. */
void suspects_count(struct keeper_part *part, const struct state_layout *at, int state_fd);

#endif

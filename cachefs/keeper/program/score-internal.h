/* How the kernel ranks keeper and life when it must kill one for want of memory (score.c). */
#ifndef SAMPAN_KEEPER_SCORE_INTERNAL_H
#define SAMPAN_KEEPER_SCORE_INTERNAL_H

/* At the keeper's start, before it says that it is not to be looked at: its score from here on. */
int keeper_score(void);
/* In the process that is about to become a life of that keeper. */
void life_score(int keeper);

#endif

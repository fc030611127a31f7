/*
 * Whom the kernel chooses when memory is short: a life before its keeper, since the keeper starts
 * the next one and a life that has lost its keeper at the same moment is an end. A life's score is
 * a little above its keeper's, whatever that is: raising it is anybody's right, and what a pod's or
 * a service's processes rank at stays the measure.
 *
 * A keeper that a life starts gets the first keeper's score back, by a word in the environment:
 * else the two would rise with each keeper that dies.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "score-internal.h"

#define SCORE_FILE "/proc/self/oom_score_adj"
#define SCORE_ENV  "SAMPAN_KEEPER_OOM_SCORE_ADJ"
#define SCORE_MORE 100 /* thousandths of the memory there is */
#define SCORE_MOST 1000

static void set_score(int score)
{
    int fd = open(SCORE_FILE, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return; /* no /proc, or not ours: all rank alike */
    dprintf(fd, "%d", score);
    close(fd);
}

int keeper_score(void)
{
    char text[16] = {0};
    const char *told = getenv(SCORE_ENV);
    if (told) {
        set_score(atoi(told));
        return atoi(told);
    }
    int fd = open(SCORE_FILE, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    int score = n > 0 ? atoi(text) : 0;
    snprintf(text, sizeof text, "%d", score);
    setenv(SCORE_ENV, text, 1);
    return score;
}

void life_score(int keeper)
{
    prctl(PR_SET_DUMPABLE, 1); /* or the file is root's alone; exec would do it, too */
    set_score(keeper + SCORE_MORE < SCORE_MOST ? keeper + SCORE_MORE : SCORE_MOST);
}

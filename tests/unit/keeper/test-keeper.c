/* The program sampan-keeper, over lives that follow a script (life.h). */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleanup.h"
#include "life.h"
#include "mem.h"

#define GIVE_UP_MS 300000

struct world {
    int state_fd;
    struct keeper_state *s;
    struct life_notes *notes;
    pid_t keeper; /* our child */
    int report;   /* the reading end, or -1 */
};

static char *keeper_program(void)
{
    char self[4096];
    const char *given = getenv("SAMPAN_KEEPER");
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    cr_assert_gt(n, 0);
    self[n] = '\0';
    for (int i = 0; i < 2; i++)
        *strrchr(self, '/') = '\0';
    return given ? xstrdup(given) : xasprintf("%s/bin/sampan-keeper", self);
}

static void run_keeper(const char *program, int state, int report)
{
    static char name[] = "a-life";
    char *const argv[] = {name, NULL};
    const struct keeper_fds fds = {.state = state, .dev = -1, .listen = -1, .report = report};
    struct err err = {0};
    setenv("SAMPAN_KEEPER", program, 1);          /* a life finds it there too */
    setenv("SAMPAN_KEEPER_HANG_MS", "300000", 0); /* where nothing hangs, nothing is late either */
    keeper_start(program, argv, &fds, /* adopt= */ false, NULL, &err);
    fprintf(stderr, "%s\n", err.msg);
    _exit(99);
}

static void world_begin(struct world *w, const char *script)
{
    struct err err = {0};
    int pipes[2];
    cleanup_free char *program = keeper_program();
    cr_assert_eq(keeper_state_make(2, 8192, &w->state_fd, &err), 0, "%s", err.msg);
    cr_assert_eq(keeper_state_map(w->state_fd, &w->s, &err), 0, "%s", err.msg);
    cr_assert_eq(keeper_text_set(keeper_text(w->s, "script", SCRIPT_MAX), script, &err), 0);
    w->notes = keeper_area(w->s, "lives", 1, sizeof *w->notes);
    cr_assert_eq(pipe2(pipes, O_CLOEXEC), 0);
    w->keeper = fork();
    cr_assert_geq(w->keeper, 0);
    if (w->keeper == 0)
        run_keeper(program, w->state_fd, pipes[1]);
    close(pipes[1]);
    w->report = pipes[0];
}

static void world_end(struct world *w)
{
    keeper_state_unmap(w->s);
    close(w->state_fd);
    close(w->report);
}

/* The keeper's exit code. */
static int keeper_end(struct world *w)
{
    int status = 0;
    while (waitpid(w->keeper, &status, 0) < 0)
        cr_assert_eq(errno, EINTR);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static pid_t life_pid(struct world *w, uint32_t number)
{
    for (uint64_t from = life_now_ms(); life_now_ms() - from < GIVE_UP_MS;) {
        pid_t pid = atomic_load(&w->notes->of[number].pid);
        if (pid)
            return pid;
        usleep(1000);
    }
    cr_assert(false, "life %u has not begun", number);
    return 0;
}

static void await_ready(struct world *w)
{
    char byte = 0;
    cr_assert_eq(read(w->report, &byte, 1), 1);
    cr_expect_eq(byte, KEEPER_REPORT_READY[0]);
}

static void await_gone(pid_t pid)
{
    for (uint64_t from = life_now_ms(); life_now_ms() - from < GIVE_UP_MS; usleep(1000))
        if (kill(pid, 0) && errno == ESRCH)
            return;
    cr_assert(false, "process %d is still there", pid);
}

/* --- the start -------------------------------------------------------------------------------- */

Test(start, a_first_life_that_fails_ends_the_keeper_with_its_code)
{
    static const struct {
        const char *script;
        int code;
    } rows[] = {{"e", 3}, {"x", 0}, {"k", 128 + SIGKILL}, {"s", 128 + SIGSEGV}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct world w;
        char byte;
        world_begin(&w, rows[i].script);
        cr_expect_eq(keeper_end(&w), rows[i].code, "%s", rows[i].script);
        cr_expect_eq(w.s->keeper.life, 1);
        cr_expect_eq(read(w.report, &byte, 1), 0, "nobody said ready");
        world_end(&w);
    }
}

Test(start, ready_is_told_once_and_done_ends_both)
{
    struct world w;
    world_begin(&w, "rw");
    await_ready(&w);
    cr_expect_eq(w.s->keeper.keeper_pid, w.keeper);
    kill(w.keeper, SIGTERM); /* passed on */
    cr_expect_eq(keeper_end(&w), 0);
    cr_expect_eq(w.s->keeper.life, 1);
    world_end(&w);
}

Test(start, what_an_empty_message_brings_is_not_kept)
{
    struct world w;
    world_begin(&w, "l");
    cr_expect_eq(keeper_end(&w), 0);
    world_end(&w);
}

Test(start, a_state_that_is_none_is_refused)
{
    cleanup_free char *program = keeper_program();
    for (int kind = 0; kind < 3; kind++) {
        int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        uint64_t bytes = keeper_state_bytes(2, 8192);
        cr_assert_eq(ftruncate(fd, (off_t)bytes), 0);
        if (kind > 0)
            fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
        if (kind == 2) { /* all but the magic, which comes last */
            struct keeper_state *s = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            keeper_state_init(s, 2, 8192);
            s->magic[0] = '\0';
            munmap(s, bytes);
        }
        struct world w = {.keeper = fork()};
        if (w.keeper == 0) {
            close(2);
            open("/dev/null", O_WRONLY);
            run_keeper(program, fd, -1);
        }
        cr_expect_eq(keeper_end(&w), 1, "kind %d", kind);
        close(fd);
    }
}

/* --- deaths ----------------------------------------------------------------------------------- */

Test(deaths, five_idle_lives_in_a_row_trip_the_brake)
{
    static const unsigned pauses[] = {0, 50, 100, 200, 400};
    struct world w;
    world_begin(&w, "ras,rs,rs,s,e,rs,rw");
    life_pid(&w, 7);
    cr_expect_eq(w.s->keeper.degraded, 1);
    cr_expect_eq(w.s->keeper.idle_deaths, 5);
    cr_expect_gt(w.s->keeper.since, 0);
    cr_expect_str_eq(w.s->keeper.why,
                     "5 lives in a row ended without having answered a request; the last one: it "
                     "died of signal 11 (Segmentation fault)");
    for (unsigned i = 1; i <= 7; i++) {
        cr_expect_eq(w.notes->of[i].refuses, i == 7, "life %u", i);
        cr_expect_eq(w.notes->of[i].has_dev, i > 1, "life %u", i);
    }
    for (unsigned i = 0; i < 5; i++) /* at least so long: how long it takes, nobody knows */
        cr_expect_geq(w.notes->of[i + 3].at_ms - w.notes->of[i + 2].at_ms, pauses[i]);
    kill(life_pid(&w, 7), SIGTERM);
    cr_expect_eq(keeper_end(&w), 0);
    world_end(&w);
}

/* Each trial is one life; those that fail come ever later, and say no other moment. */
Test(deaths, what_is_degraded_is_tried_again)
{
    static const struct {
        int refuses;
        unsigned lasts_ms; /* at least */
    } lives[] = {[6] = {1, 300}, [7] = {0, 0},     [8] = {1, 600},
                 [9] = {0, 0},   [10] = {1, 1200}, [11] = {0, 0}};
    struct world w;
    setenv("SAMPAN_KEEPER_TRIAL_MS", "300", 1);
    world_begin(&w, "rs,s,s,s,s,raw,s,raw,e,rw,ras,rd");
    life_pid(&w, 6);
    int64_t since = w.s->keeper.since;
    life_pid(&w, 10);
    cr_expect_eq(w.s->keeper.since, since);
    cr_expect_eq(keeper_end(&w), 0);
    cr_expect_eq(w.s->keeper.life, 12);
    cr_expect_eq(w.s->keeper.degraded, 0);
    cr_expect_eq(w.s->keeper.idle_deaths, 0);
    for (unsigned i = 6; i <= 11; i++) {
        cr_expect_eq(w.notes->of[i].refuses, lives[i].refuses, "life %u", i);
        cr_expect_geq(w.notes->of[i + 1].at_ms - w.notes->of[i].at_ms, lives[i].lasts_ms, "life %u",
                      i);
    }
    world_end(&w);
}

Test(deaths, an_answer_in_between_starts_the_count_again)
{
    struct world w;
    world_begin(&w, "rs,rs,rs,rs,ras,rs,rs,rs,rs,rd");
    cr_expect_eq(keeper_end(&w), 0);
    cr_expect_eq(w.s->keeper.life, 10);
    cr_expect_eq(w.s->keeper.degraded, 0);
    world_end(&w);
}

Test(deaths, kills_from_outside_never_trip_it)
{
    struct world w;
    world_begin(&w, "rk,k,rk,rk,k,rk,rk,rk,k,rk,rd");
    cr_expect_eq(keeper_end(&w), 0);
    cr_expect_eq(w.s->keeper.life, 11);
    cr_expect_eq(w.s->keeper.idle_deaths, 0);
    cr_expect_eq(w.s->keeper.degraded, 0);
    cr_expect_str_eq(w.s->keeper.why, "it was killed from outside (signal 9)");
    world_end(&w);
}

Test(deaths, a_crash_accuses_what_was_in_hand)
{
    struct world w;
    /* Two in hand, then one of them alone, twice more. The slot is cleared by the test, as a life
     * would when it has answered. */
    world_begin(&w, "raqQs,rh,raqs,raqs,rd");
    pid_t second = life_pid(&w, 2);
    const struct keeper_suspect *all = w.s->keeper.suspects;
    cr_expect_eq(all[0].opcode, 15);
    cr_expect_eq(all[0].nodeid, 7);
    cr_expect_eq(all[0].offset, 4096);
    cr_expect_eq(all[0].deaths, 1);
    cr_expect_eq(all[1].nodeid, 8);
    cr_expect_eq(all[1].deaths, 1);
    cr_expect_eq(all[2].opcode, 0);
    keeper_slot(w.s, KEEPER_SLOTS - 1)->request.len = 0;
    kill(second, SIGKILL);
    cr_expect_eq(keeper_end(&w), 0);
    cr_expect_eq(all[0].nodeid, 7);
    cr_expect_eq(all[0].deaths, KEEPER_DEATHS);
    cr_expect_eq(all[1].opcode, 0, "answered: no suspect any more");
    world_end(&w);
}

/* A life that waits longer for a processor than the keeper has patience is killed, as it must be.
 * So these stories are told with little patience first, and with more where another life was killed
 * than the one that hangs. */
static const char *const patiences[] = {"2000", "8000", "32000", "128000"};
#define FOR_EACH_PATIENCE(i)                                                  \
    for (size_t i = 0; i < sizeof patiences / sizeof *patiences &&            \
                       setenv("SAMPAN_KEEPER_HANG_MS", patiences[i], 1) == 0; \
         i++)

/* The first life hangs, the second one is done: were there just these two? */
static bool is_replaced_once(const char *script)
{
    struct world w;
    world_begin(&w, script);
    life_pid(&w, 2); /* a keeper that hangs, too, ends the test here */
    bool once = keeper_end(&w) == 0 && w.s->keeper.life == 2;
    if (once)
        cr_expect_str_eq(w.s->keeper.why, "it hung, and was killed");
    world_end(&w);
    return once;
}

static void check_replaced(const char *script)
{
    bool once = false;
    FOR_EACH_PATIENCE(i)
    once = once || is_replaced_once(script);
    cr_expect(once);
}

Test(deaths, what_hangs_is_replaced)
{
    check_replaced("rah,rd");
}

Test(deaths, what_hangs_is_replaced_though_it_filled_what_the_keeper_is_to_write_to)
{
    check_replaced("rayh,rd");
}

Test(deaths, workers_that_are_all_stuck_hang_too)
{
    check_replaced("raDw,rd");
}

/* Both stand still for longer than the keeper has patience; it goes on first. */
static bool survives_a_pause(unsigned patience_ms)
{
    struct world w;
    world_begin(&w, "rw");
    await_ready(&w);
    pid_t life = life_pid(&w, 1);
    kill(w.keeper, SIGSTOP);
    kill(life, SIGSTOP);
    usleep((patience_ms + 1000) * 1000);
    kill(w.keeper, SIGCONT);
    usleep(500 * 1000); /* were the gap counted, it would kill what cannot answer yet */
    kill(life, SIGCONT);
    kill(w.keeper, SIGTERM);
    bool survives = keeper_end(&w) == 0 && w.s->keeper.life == 1;
    world_end(&w);
    return survives;
}

Test(deaths, a_stopped_keeper_does_not_think_that_its_life_hung)
{
    bool survives = false;
    FOR_EACH_PATIENCE(i)
    survives = survives || survives_a_pause((unsigned)strtoul(patiences[i], NULL, 10));
    cr_expect(survives);
}

/* --- another program -------------------------------------------------------------------------- */

static bool hanging_one_gives_way(void)
{
    struct world w;
    world_begin(&w, "ramx,h,rd");
    bool gives_way = keeper_end(&w) == 0 && w.s->keeper.life == 3 &&
                     w.s->keeper.upgrade_outcome == UPGRADE_FAILED &&
                     strcmp(w.s->keeper.upgrade_why, "it hung, and was killed") == 0;
    world_end(&w);
    return gives_way;
}

Test(next, one_that_does_not_get_ready_gives_way_to_the_old_one)
{
    struct world w;
    world_begin(&w, "ranx,,rd"); /* the second life is /bin/true, which knows no script */
    cr_expect_eq(keeper_end(&w), 0);
    cr_expect_eq(w.s->keeper.life, 3);
    cr_expect_eq(w.s->keeper.upgrades, 1);
    cr_expect_eq(w.s->keeper.upgrade_outcome, UPGRADE_FAILED);
    cr_expect_str_eq(w.s->keeper.upgrade_why, "it ended with code 0");
    cr_expect_eq(w.s->keeper.idle_deaths, 0);
    world_end(&w);
}

Test(next, one_that_hangs_gives_way_too)
{
    bool gives_way = false;
    FOR_EACH_PATIENCE(i)
    gives_way = gives_way || hanging_one_gives_way();
    cr_expect(gives_way);
}

Test(next, one_that_gets_ready_stays_and_leaves_degraded)
{
    struct world w;
    world_begin(&w, "rs,s,s,s,s,rmx,rad");
    cr_expect_eq(keeper_end(&w), 0);
    cr_expect_eq(w.s->keeper.life, 7);
    cr_expect_eq(w.notes->of[6].refuses, 1);
    cr_expect_eq(w.notes->of[7].refuses, 0);
    cr_expect_eq(w.s->keeper.degraded, 0);
    cr_expect_eq(w.s->keeper.upgrade_outcome, UPGRADE_DONE);
    world_end(&w);
}

/* --- the keeper's own death ------------------------------------------------------------------- */

static pid_t another_keeper(struct world *w, pid_t than)
{
    for (uint64_t from = life_now_ms(); life_now_ms() - from < GIVE_UP_MS; usleep(1000)) {
        pid_t pid = *(volatile int32_t *)&w->s->keeper.keeper_pid;
        if (pid != than)
            return pid;
    }
    cr_assert(false, "no new keeper");
    return 0;
}

Test(adoption, a_life_starts_a_new_keeper_which_keeps_it)
{
    struct world w;
    world_begin(&w, "rw,rw");
    await_ready(&w);
    pid_t first = life_pid(&w, 1);
    kill(w.keeper, SIGKILL);
    cr_expect_eq(keeper_end(&w), 1000 + SIGKILL);
    pid_t second_keeper = another_keeper(&w, w.keeper);
    cr_expect_eq(w.s->keeper.life, 1, "the life went on");
    kill(second_keeper, SIGKILL);
    pid_t third_keeper = another_keeper(&w, second_keeper);
    kill(first, SIGKILL);
    pid_t second = life_pid(&w, 2);
    cr_expect_eq(w.s->keeper.keeper_pid, third_keeper);
    cr_expect_eq(w.notes->of[2].has_dev, 1);
    cr_expect_eq(w.notes->of[2].refuses, 0);
    kill(third_keeper, SIGTERM);
    await_gone(second);
    await_gone(third_keeper);
    world_end(&w);
}

/* --- another keeper while this one lives ------------------------------------------------------ */

Test(replaced, the_old_one_ends_when_the_new_one_holds_all)
{
    struct world w;
    world_begin(&w, "raRaRaw,rw");
    await_ready(&w);
    cr_expect_eq(keeper_end(&w), 0);
    pid_t life = life_pid(&w, 1);
    for (uint64_t from = life_now_ms(); atomic_load(&w.s->answered) < 3; usleep(1000))
        cr_assert_lt(life_now_ms() - from, GIVE_UP_MS);
    pid_t keeper = *(volatile int32_t *)&w.s->keeper.keeper_pid;
    cr_expect_neq(keeper, w.keeper);
    cr_expect_eq(w.s->keeper.life, 1, "the life went on");
    kill(life, SIGKILL);
    pid_t second = life_pid(&w, 2);
    cr_expect_eq(w.notes->of[2].has_dev, 1);
    cr_expect_eq(w.s->keeper.keeper_pid, keeper);
    kill(second, SIGTERM);
    await_gone(second);
    await_gone(keeper);
    world_end(&w);
}

Test(replaced, one_that_fails_or_is_never_told_leaves_the_old_one)
{
    struct world w;
    world_begin(&w, "rFYad,");
    await_ready(&w);
    cr_expect_eq(keeper_end(&w), 0, "done, as asked");
    cr_expect_eq(w.s->keeper.keeper_pid, w.keeper);
    cr_expect_eq(w.s->keeper.life, 1);
    cr_expect_eq(atomic_load(&w.s->answered), 1);
    world_end(&w);
}

Test(adoption, a_keeper_that_dies_before_the_mount_is_there_leaves_nothing)
{
    struct world w;
    world_begin(&w, "w"); /* never ready */
    pid_t life = life_pid(&w, 1);
    kill(w.keeper, SIGKILL);
    cr_expect_eq(keeper_end(&w), 1000 + SIGKILL);
    usleep(50 * 1000);
    cr_expect_eq(w.s->keeper.keeper_pid, w.keeper, "no new one");
    kill(life, SIGTERM);
    await_gone(life);
    world_end(&w);
}

/* A journal that somebody damaged: what has no place any more harms nothing else. */
#include <criterion/criterion.h>
#include <sqlite3.h>
#include <string.h>

#include "mem.h"
#include "stage-testing.h"

static uint64_t a, b_in_a, c_in_b;

/* a/b/c/f, and a file beside it that is still written; and then the stage is closed. */
static void start(struct bench *b)
{
    uint64_t fh;
    bench_start(b, false);
    b->conf.commit = COMMIT_BACKGROUND;
    bench_open(b, true);
    a = t_mkdir(b, STAGE_ROOT, "a");
    b_in_a = t_mkdir(b, a, "b");
    c_in_b = t_mkdir(b, b_in_a, "c");
    t_file(b, c_in_b, "f", "below");
    t_file(b, STAGE_ROOT, "g", "beside");
    t_settle(b);
    t_create(b, c_in_b, "owed", &fh);
    t_write(b, fh, 0, "not stored yet");
    bench_close(b);
}

/* Another folder than it has; 0: no row at all. */
static void move_row(const struct bench *b, uint64_t ino, uint64_t parent)
{
    sqlite3 *db = NULL;
    cleanup_free char *path = xasprintf("%s/journal.db", b->dir);
    cleanup_free char *sql =
        parent ? xasprintf("UPDATE node SET parent = %llu WHERE ino = %llu",
                           (unsigned long long)parent, (unsigned long long)ino)
               : xasprintf("DELETE FROM node WHERE ino = %llu", (unsigned long long)ino);
    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
    cr_assert_eq(sqlite3_changes(db), 1);
    sqlite3_close(db);
}

/* All of it is in the store, so all of it is found again. */
static void check(struct bench *b, bool fresh)
{
    bench_open(b, fresh);
    stage_set_refresh(b->s, STAGE_EACH_LOOK);
    expect_text(b, STAGE_ROOT, "g", "beside");
    uint64_t folder = t_lookup(b, t_lookup(b, t_lookup(b, STAGE_ROOT, "a"), "b"), "c");
    expect_text(b, folder, "f", "below");
    t_file(b, folder, "new", "made there");
    t_settle(b);
    expect_stored(b, "a/b/c/new", "made there");
    expect_stored(b, "owed", NULL); /* nor under a key of somebody else */
    expect_stored(b, "c/owed", NULL);
    expect_stored(b, "b/c/owed", NULL);
    bench_close(b);
    bench_open(b, true);
    expect_text(b, t_lookup(b, t_lookup(b, t_lookup(b, STAGE_ROOT, "a"), "b"), "c"), "new",
                "made there");
    bench_stop(b);
}

static void damaged(uint64_t *ino, uint64_t *parent)
{
    for (int fresh = 0; fresh <= 1; fresh++) {
        struct bench b;
        start(&b);
        move_row(&b, *ino, parent ? *parent : 0);
        check(&b, fresh);
    }
}

Test(damaged, folders_in_a_circle)
{
    damaged(&a, &c_in_b);
}

Test(damaged, a_folder_in_itself)
{
    damaged(&b_in_a, &b_in_a);
}

Test(damaged, a_folder_without_a_row)
{
    damaged(&b_in_a, NULL);
}

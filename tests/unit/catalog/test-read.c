/* Reading a version: pages, walks, paths, many threads; and files that are no version. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mem.h"
#include "sql.h"
#include "support.h"

TestSuite(read, .init = folder_make, .fini = folder_remove);

/* 1 000 samples in a/, 3 in b/c/. */
static struct catalog *many(void)
{
    struct catalog_builder *b = builder(NULL);
    struct err e = {0};
    for (int i = 0; i < 1003; i++) {
        char key[40];
        int len = snprintf(key, sizeof key, i < 1000 ? "a/%04d" : "b/c/%04d", i);
        struct row r = {.key = key, .key_len = (size_t)len, .size = (uint64_t)i};
        cr_assert_eq(catalog_builder_add(b, &r, &e), 0);
    }
    return finish(b, NULL);
}

struct page {
    unsigned left, n;
    uint64_t last;
    char name[256];
};

static bool take(void *arg, const struct entry *e, uint64_t cookie)
{
    struct page *p = arg;
    cr_expect_lt(strcmp(p->name, e->name), 0);
    snprintf(p->name, sizeof p->name, "%s", e->name);
    p->last = cookie;
    p->n++;
    return --p->left > 0;
}

Test(read, pages_go_on_where_they_stopped)
{
    struct catalog *c = many();
    const unsigned sizes[] = {1, 7, 999, 1000, 5000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct page p = {0};
        unsigned before;
        struct err e = {0};
        do {
            before = p.n;
            p.left = sizes[i];
            cr_assert_eq(catalog_page(c, id_of(c, "a"), p.last, take, &p, &e), 0, "%s", e.msg);
        } while (p.n > before);
        cr_expect_eq(p.n, 1000);
    }
    catalog_unref(c);
}

Test(read, a_cookie_of_elsewhere_is_stale)
{
    struct catalog *c = many();
    const uint64_t cookies[] = {1, id_of(c, "a"), id_of(c, "a/0001"), 1 << 20, UINT64_MAX};
    struct page p = {0};
    for (size_t i = 0; i < sizeof cookies / sizeof *cookies; i++) {
        struct err e = {0};
        cr_expect_eq(catalog_page(c, id_of(c, "b"), cookies[i], take, &p, &e), -1);
        cr_expect_eq(e.class, ERR_STALE);
    }
    catalog_unref(c);
}

/* Names that arrive later have higher ids but their own place in the order. */
Test(read, pages_of_a_grown_folder_stay_in_name_order)
{
    struct catalog *a = version(NULL, "f/b\nf/d\nf/f\n");
    struct catalog *b = version(a, "f/a\nf/b\nf/c\nf/d\nf/e\nf/f\nf/g\n");
    struct page p = {0};
    for (int i = 0; i < 7; i++) {
        p.left = 1;
        cr_assert_eq(catalog_page(b, id_of(b, "f"), p.last, take, &p, NULL), 0);
        cr_expect_eq(p.name[0], 'a' + i);
    }
    catalog_unref(a);
    catalog_unref(b);
}

static bool nested(void *arg, const struct entry *e, uint64_t cookie)
{
    struct entry same;
    (void)cookie;
    return catalog_get(arg, e->id, &same, NULL) == 0 && strcmp(same.name, e->name) == 0;
}

Test(read, a_callback_may_read_on)
{
    struct catalog *c = many();
    cr_expect_eq(catalog_page(c, id_of(c, "a"), 0, nested, c, NULL), 0);
    catalog_unref(c);
}

struct walk {
    uint64_t last, n, stop;
};

static bool step_walk(void *arg, const struct entry *e)
{
    struct walk *w = arg;
    cr_expect_not(e->folder);
    cr_expect_gt(e->id, w->last);
    w->last = e->id;
    return ++w->n != w->stop;
}

Test(read, walks)
{
    struct catalog *c = many();
    struct walk w = {0};
    cr_expect_eq(catalog_walk(c, 0, step_walk, &w, NULL), 0);
    cr_expect_eq(w.n, 1003);
    struct walk some = {.stop = 10};
    cr_expect_eq(catalog_walk(c, 0, step_walk, &some, NULL), 0);
    cr_expect_eq(some.n, 10);
    some.stop = 0;
    cr_expect_eq(catalog_walk(c, some.last, step_walk, &some, NULL), 0);
    cr_expect_eq(some.n, 1003);
    struct walk below = {0};
    cr_expect_eq(catalog_walk_below(c, id_of(c, "b"), step_walk, &below, NULL), 0);
    cr_expect_eq(below.n, 3);
    struct walk all = {0};
    cr_expect_eq(catalog_walk_below(c, CATALOG_ROOT_ID, step_walk, &all, NULL), 0);
    cr_expect_eq(all.n, 1003);
    cr_expect_eq(catalog_walk(c, UINT64_MAX, step_walk, &all, NULL), 0);
    catalog_unref(c);
}

Test(read, paths_and_what_is_not_there)
{
    struct catalog *c = many();
    struct bytes path = {0};
    struct entry e;
    struct err err = {0};
    const char *const missing[] = {"nope", "a/nope", "a/0001/x", "b/c/1000/", "b/d/1000"};
    cr_assert_eq(catalog_path(c, id_of(c, "b/c/1001"), &path, &err), 0, "%s", err.msg);
    cr_expect_str_eq(path.data, "b/c/1001");
    bytes_clear(&path);
    bytes_add_str(&path, "x:");
    cr_assert_eq(catalog_path(c, CATALOG_ROOT_ID, &path, &err), 0);
    cr_expect_str_eq(path.data, "x:");
    cr_expect_eq(id_of(c, ""), CATALOG_ROOT_ID);
    cr_expect_eq(id_of(c, "/b//c/"), id_of(c, "b/c"));
    for (size_t i = 0; i < 5; i++) {
        cr_expect_eq(catalog_find(c, missing[i], &e, &err), i == 3 ? 0 : -1, "%s", missing[i]);
        cr_expect_eq(err.class, ERR_NOT_FOUND);
    }
    cr_expect_eq(catalog_lookup(c, id_of(c, "a"), "0001", 4, &e, &err), 0);
    cr_expect_eq(e.size, 1);
    cr_expect_eq(e.parent, id_of(c, "a"));
    cr_expect_eq(catalog_lookup(c, id_of(c, "a"), "", 0, &e, &err), -1);
    cr_expect_eq(catalog_lookup(c, id_of(c, "a/0001"), "x", 1, &e, &err), -1);
    cr_expect_eq(catalog_get(c, 0, &e, &err), -1);
    cr_expect_eq(catalog_get(c, UINT64_MAX, &e, &err), -1);
    bytes_release(&path);
    catalog_unref(c);
}

static void *reader(void *arg)
{
    struct catalog *c = arg;
    for (uint64_t i = 0; i < 3000; i++) {
        uint64_t id, n = i * 7919 % 1003;
        struct entry e;
        struct unit_info u;
        if (catalog_numbers(c, n, 1, &id, NULL) < 0 || catalog_get(c, id, &e, NULL) < 0 ||
            e.size != n || catalog_unit(c, id, &u, NULL) < 0)
            return (void *)1;
        unit_info_release(&u);
    }
    return NULL;
}

Test(read, from_many_threads)
{
    struct catalog *c = many();
    pthread_t t[12];
    for (int i = 0; i < 12; i++)
        cr_assert_eq(pthread_create(&t[i], NULL, reader, c), 0);
    for (int i = 0; i < 12; i++) {
        void *failed;
        pthread_join(t[i], &failed);
        cr_expect_null(failed);
    }
    catalog_unref(c);
}

/* --- refusals --------------------------------------------------------------------------------- */

static char *copy_of(struct catalog *c, const char *name)
{
    char *to = xasprintf("%s/%s", folder_name(), name);
    char block[4096];
    int in = open(catalog_file(c), O_RDONLY), out = open(to, O_RDWR | O_CREAT | O_TRUNC, 0600);
    ssize_t n;
    while ((n = read(in, block, sizeof block)) > 0)
        cr_assert_eq(write(out, block, (size_t)n), n);
    close(in);
    close(out);
    return to;
}

static void refused(const char *file, const char *why)
{
    struct catalog *c;
    struct err e = {0};
    cr_expect_eq(catalog_open(&c, file, &e), -1, "%s", why);
    cr_expect_eq(e.class, ERR_CORRUPT, "%s: %s", why, e.msg);
    cr_expect(strstr(e.msg, why) != NULL, "want %s in: %s", why, e.msg);
}

static void put_byte(const char *file, off_t at, unsigned char byte)
{
    int fd = open(file, O_WRONLY);
    cr_assert_eq(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* The file's disk fails, or somebody cuts it: an error, and no signal that ends the process. */
Test(read, a_file_that_is_cut_while_it_is_open)
{
    struct catalog *c = many(), *cut;
    cleanup_free char *file = copy_of(c, "cut-while-open");
    struct err err = {0};
    unsigned failed = 0;
    uint64_t next_id = catalog_info(c)->next_id;
    cr_assert_eq(catalog_open(&cut, file, &err), 0, "%s", err.msg);
    cr_assert_eq(truncate(file, 8192), 0);
    for (uint64_t id = 1; id < next_id; id++) {
        struct entry e;
        err_clear(&err);
        if (catalog_get(cut, id, &e, &err) == 0 || err.class == ERR_NOT_FOUND)
            continue;
        cr_expect(strstr(err.msg, file), "%s", err.msg);
        failed++;
    }
    cr_expect_gt(failed, 0);
    catalog_unref(cut);
    catalog_unref(c);
}

Test(read, files_that_are_no_catalog)
{
    struct catalog *c = many();
    cleanup_free char *file = copy_of(c, "x");
    struct stat st;
    stat(file, &st);
    put_byte(file, 63, 2);
    refused(file, "format 2, this program knows up to 1");
    put_byte(file, 63, 0);
    refused(file, "never finished");
    put_byte(file, 63, 1);
    put_byte(file, 71, 0);
    refused(file, "not a catalog");
    cleanup_free char *cut = copy_of(c, "cut");
    cr_assert_eq(truncate(cut, st.st_size - 4096), 0);
    refused(cut, "truncated");
    cr_assert_eq(truncate(cut, st.st_size + 1), 0);
    refused(cut, "truncated");
    cr_assert_eq(truncate(cut, 99), 0);
    refused(cut, "99 bytes");
    refused("/dev/null", "not a regular file");
    refused(folder_name(), "not a regular file");
    cr_expect_eq(catalog_open(&(struct catalog *){NULL}, "/nonexistent", NULL), -1);
    catalog_unref(c);
}

static void change(const char *file, const char *sql)
{
    sqlite3 *db;
    cr_assert_eq(sqlite3_open(file, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s: %s", sql,
                 sqlite3_errmsg(db));
    sqlite3_close(db);
}

Test(read, meta_and_tables_that_contradict)
{
    const struct {
        const char *sql, *why;
    } cases[] = {
        {"CREATE TABLE extra(x)", "not those of a catalog"},
        {"CREATE TRIGGER t AFTER INSERT ON node BEGIN SELECT 1; END", "not those of a catalog"},
        {"DROP TABLE bad", "not those of a catalog"},
        {"DROP TABLE source; DROP TABLE numbers", "a table is missing"},
        {"DELETE FROM meta WHERE key = 'samples'", "incomplete"},
        {"UPDATE meta SET value = 'x' WHERE key = 'digest'", "incomplete"},
        {"UPDATE meta SET value = -1 WHERE key = 'bytes'", "incomplete"},
        {"UPDATE meta SET value = 9999 WHERE key = 'numbered'", "contradict"},
        {"UPDATE meta SET value = 500 WHERE key = 'next_id'", "contradict"},
        {"UPDATE meta SET value = 9223372036854775807 WHERE key = 'next_id'", "contradict"},
        {"UPDATE meta SET value = 9223372036854775807 WHERE key = 'samples'", "contradict"},
        {"UPDATE meta SET value = 9223372036854775807 WHERE key = 'folders'", "contradict"},
        {"UPDATE meta SET value = 2 WHERE key = 'sources'", "a source is missing"},
        {"DELETE FROM node WHERE id = 1", "no root"},
        {"INSERT INTO node(id, parent, name, kind, size, mtime_ns, source) "
         "VALUES(5000, 1, 'z', 0, 1, 1, 0)",
         "says is unused"},
    };
    struct catalog *c = many();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleanup_free char *file = copy_of(c, "x");
        change(file, cases[i].sql);
        refused(file, cases[i].why);
    }
    catalog_unref(c);
}

/* A change of the rows alone: the index of names goes on saying what it said. */
#define BEHIND_THE_INDEX(sql)                                                              \
    "PRAGMA writable_schema = ON;"                                                         \
    "CREATE TEMP TABLE kept AS SELECT * FROM main.sqlite_schema WHERE name = 'node_name';" \
    "DELETE FROM main.sqlite_schema WHERE name = 'node_name'; PRAGMA writable_schema = "   \
    "RESET; " sql                                                                          \
    "; PRAGMA writable_schema = ON; INSERT INTO main.sqlite_schema SELECT * FROM kept"

/* Damage that opening does not look for: every reader says so, none crashes, verify finds it. */
Test(read, damaged_rows)
{
    const char *const cases[] = {
        "UPDATE node SET name = x'612f62' WHERE id = 10",
        "UPDATE node SET name = zeroblob(300) WHERE id = 10",
        "UPDATE node SET name = x'' WHERE id = 10",
        "UPDATE node SET kind = 7 WHERE id = 10",
        "UPDATE node SET size = -1 WHERE id = 10",
        "UPDATE node SET size = 12345 WHERE id = 10",
        "UPDATE node SET source = 3 WHERE id = 10",
        "UPDATE node SET etag = zeroblob(500) WHERE id = 10",
        "UPDATE node SET etag = x'00' WHERE id = 10",
        "UPDATE node SET number = 5000 WHERE id = 10",
        "UPDATE node SET number = 11 WHERE id = 10",
        "UPDATE node SET number = NULL WHERE id = 10",
        "UPDATE numbers SET ids = x'0a00000000000000' WHERE chunk = 1",
        "UPDATE numbers SET ids = zeroblob(8) WHERE chunk = 0",
        BEHIND_THE_INDEX("UPDATE node SET name = 'other' WHERE id = 10"),
        BEHIND_THE_INDEX("UPDATE node SET parent = 1 WHERE id = 10"),
        BEHIND_THE_INDEX("DELETE FROM node WHERE id = 10"),
        "UPDATE node SET mtime_ns = 1 WHERE id = 10",
        "UPDATE node SET parent = -5 WHERE id = 10",
        "UPDATE node SET parent = 10 WHERE id = 10",
        "UPDATE node SET parent = 4711 WHERE id = 10",
        "DELETE FROM node WHERE id = 10",
    };
    struct catalog *c = many();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleanup_free char *file = copy_of(c, "x");
        struct catalog *x;
        struct unit_info u = {0};
        struct err e = {0};
        change(file, cases[i]);
        cr_assert_eq(catalog_open(&x, file, &e), 0, "%s: %s", cases[i], e.msg);
        cr_expect_eq(catalog_verify(x, &e), -1, "%s", cases[i]);
        cr_expect_eq(e.class, ERR_CORRUPT, "%s: %s", cases[i], e.msg);
        if (catalog_unit(x, 10, &u, NULL) == 0)
            unit_info_release(&u);
        catalog_unref(x);
    }
    catalog_unref(c);
}

/* Of a version that somebody else made: its digest is that of its rows. */
Test(read, names_that_lead_elsewhere)
{
    const char *const names[] = {"2e", "2e2e", "2f", "2e2e2f61", "6100"};
    struct catalog *c = many();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        cleanup_free char *file = copy_of(c, "x");
        cleanup_free char *sql = xasprintf("UPDATE node SET name = x'%s' WHERE id = 10", names[i]);
        struct catalog *x;
        struct entry e;
        struct err err = {0};
        change(file, sql);
        cr_assert_eq(catalog_open(&x, file, &err), 0, "%s", err.msg);
        cr_expect_eq(catalog_get(x, 10, &e, &err), -1, "%s", names[i]);
        cr_expect_eq(err.class, ERR_CORRUPT, "%s: %s", names[i], err.msg);
        catalog_unref(x);
    }
    catalog_unref(c);
}

/* Where the index of names has the folder "z" of the root: a record of three columns. */
static long index_of_z(const unsigned char *data, size_t len)
{
    static const unsigned char record[] = {4, 9, 14, 1, 'z'};
    const unsigned char *at = memmem(data, len, record, sizeof record);
    cr_assert(at);
    return at + sizeof record - 1 - data;
}

static void rename_in_index(const char *file, char name)
{
    struct stat st;
    int fd = open(file, O_RDWR | O_CLOEXEC);
    cr_assert(fd >= 0 && fstat(fd, &st) == 0);
    cleanup_free unsigned char *data = xmalloc((size_t)st.st_size);
    cr_assert_eq(pread(fd, data, (size_t)st.st_size, 0), st.st_size);
    cr_assert_eq(pwrite(fd, &name, 1, index_of_z(data, (size_t)st.st_size)), 1);
    close(fd);
}

static bool count_up_to(void *arg, const struct entry *e)
{
    unsigned *left = arg;
    (void)e;
    return --*left > 0;
}

/* Whoever goes on after the last folder comes back to the first name: a walk ends nevertheless. */
Test(read, index_that_leads_in_a_circle)
{
    struct err e = {0};
    struct catalog *c = version(NULL, "a\nb\nz/x\n"), *x;
    cleanup_free char *file = copy_of(c, "x");
    change(file, BEHIND_THE_INDEX("UPDATE node SET name = x'30' WHERE name = x'7a'"));
    rename_in_index(file, '0');
    cr_assert_eq(catalog_open(&x, file, &e), 0, "%s", e.msg);
    cr_expect_eq(catalog_verify(x, &e), -1);
    cr_expect_eq(e.class, ERR_CORRUPT, "%s", e.msg);
    cr_expect(strstr(e.msg, "no end"), "%s", e.msg);
    unsigned left = 1000;
    cr_expect_eq(catalog_walk_below(x, CATALOG_ROOT_ID, count_up_to, &left, &e), -1);
    catalog_unref(x);
    catalog_unref(c);
}

Test(read, damaged_numbers)
{
    const char *const cases[] = {
        "DELETE FROM numbers WHERE chunk = 1",
        "UPDATE numbers SET ids = x'00' WHERE chunk = 1",
        "UPDATE numbers SET ids = zeroblob(4000) WHERE chunk = 1",
        "UPDATE numbers SET ids = x'ffffffffffffff7f' WHERE chunk = 1",
    };
    struct catalog *c = many();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleanup_free char *file = copy_of(c, "x");
        struct catalog *x;
        struct err e = {0};
        uint64_t id;
        change(file, cases[i]);
        cr_assert_eq(catalog_open(&x, file, &e), 0, "%s: %s", cases[i], e.msg);
        cr_expect_eq(catalog_numbers(x, 700, 1, &id, &e), -1, "%s", cases[i]);
        cr_expect_eq(e.class, ERR_CORRUPT);
        cr_expect_eq(catalog_numbers(x, 10, 1, &id, NULL), 0);
        catalog_unref(x);
    }
    catalog_unref(c);
}

Test(read, names_that_mean_something_in_a_uri)
{
    struct catalog *c = many(), *x;
    struct err e = {0};
    cleanup_free char *file = copy_of(c, "a?mode=rw#%41 b.catalog");
    cr_assert_eq(catalog_open(&x, file, &e), 0, "%s", e.msg);
    cr_expect_eq(id_of(x, "a/0001"), id_of(c, "a/0001"));
    catalog_unref(x);
    catalog_unref(c);
}

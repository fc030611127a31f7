/* A folder whose links are not followed: what lies outside is neither seen nor touched. */
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "object-testing.h"

static const struct store_conf no_links = {.no_links = true};

static char dir[] = "/tmp/object-links-XXXXXX";
static struct store *s;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static struct store *open_in(const char *name, const struct store_conf *conf)
{
    cleanup_free char *uri = xasprintf("file://%s/%s", dir, name);
    return open_store(uri, conf);
}

static void write_text(const char *path, const char *text)
{
    cleanup_file FILE *f = fopen(path, "we");
    cr_assert(f && fputs(text, f) >= 0);
}

/* The store's folder, "in", does not exist yet. */
static void begin(void)
{
    cr_assert_not_null(mkdtemp(dir));
    cr_assert_eq(chdir(dir), 0);
    cr_assert_eq(mkdir("out", 0700), 0);
    cr_assert_eq(mkdir("out/empty", 0700), 0);
    write_text("out/f", "the secret");
    s = open_in("in", &no_links);
}

static void end(void)
{
    store_close(s);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int put(struct store *to, const char *key, struct err *err)
{
    struct local_file *f;
    if (store_local_begin(to, key, &f, err))
        return -1;
    if (store_local_append(f, "mine", 4, err)) {
        store_local_abort(f);
        return -1;
    }
    return store_local_commit(f, NULL, /* durable= */ true, err);
}

static int add_key(void *arg, const struct list_item *item, struct err *err)
{
    (void)err;
    bytes_addf(arg, "%.*s%s ", (int)item->key_len, item->key, item->dangling ? "!" : "");
    return 0;
}

static int add_walked(void *arg, const char *key, const struct stat *st, struct err *err)
{
    (void)st, (void)err;
    bytes_addf(arg, "%s ", key);
    return 0;
}

static int add_level(void *arg, const char *name, const struct stat *st, const char *etag,
                     struct err *err)
{
    (void)etag;
    return add_walked(arg, name, st, err);
}

static bool reads(struct store *from, const char *key)
{
    char text[4];
    return store_local_read(from, key, strlen(key), 0, text, sizeof text, 0, 0, NULL) == 0;
}

static void expect_untouched(void)
{
    struct store *out = open_in("out", NULL);
    cleanup_bytes struct bytes keys = {0};
    struct stat st;
    cr_assert_eq(store_local_walk(out, "", add_walked, &keys, NULL), 0);
    cr_expect(strcmp(keys.data, "empty/ f ") == 0 || strcmp(keys.data, "f empty/ ") == 0, "%s",
              keys.data);
    cr_expect_eq(stat("out/f", &st), 0);
    cr_expect_eq(st.st_size, 10);
    cr_expect_neq(st.st_mode & 07777, 0751);
    store_close(out);
}

/* Each call on what lies, or would lie, in the folder `d` fails. */
static void expect_closed(void)
{
    const struct local_attrs attrs = {.has_mode = true, .mode = 0751};
    cleanup_bytes struct bytes seen = {0};
    struct err err = {0};
    struct stat st;
    cr_expect(!reads(s, "d/f"));
    cr_expect_eq(store_local_look(s, "d/f", &st, NULL), -1);
    cr_expect_eq(store_local_stat(s, "d/f", &st, &err), -1);
    cr_expect_eq(err.class, ERR_DENIED);
    cr_expect_not_null(strstr(err.msg, "/in/d/f: lies behind a link"), "%s", err.msg);
    cr_expect_eq(store_local_list(s, "d/", true, add_key, &seen, NULL), -1);
    cr_expect_eq(store_local_level(s, "d/", add_level, &seen, NULL), -1);
    cr_expect_eq(store_local_walk(s, "d/", add_walked, &seen, NULL), -1);
    cr_expect_eq(store_local_walk(s, "d/empty/", add_walked, &seen, NULL), -1);
    cr_expect_eq(seen.len, 0, "%s", seen.data);
    cr_expect_eq(put(s, "d/f", NULL), -1);
    cr_expect_eq(put(s, "d/new/g", NULL), -1);
    cr_expect_eq(store_local_folder(s, "d/", NULL), -1);
    cr_expect_eq(store_local_folder(s, "d/new/", NULL), -1);
    cr_expect_eq(store_local_link(s, "d/g", "f", NULL), -1);
    cr_expect_eq(store_local_set_attrs(s, "d/f", &attrs, NULL), -1);
    cr_expect_eq(store_local_rename(s, "d/f", "g", NULL), -1);
    cr_expect_eq(store_local_rename(s, "a", "d/a", NULL), -1);
    cr_expect_eq(store_local_delete(s, "d/f", NULL), -1);
    cr_expect_eq(store_local_remove_folder(s, "d/empty/", NULL), -1);
    expect_untouched();
}

Test(no_links, links_are_told_as_dangling, .init = begin, .fini = end)
{
    struct store *follows = open_in("in", NULL);
    cleanup_bytes struct bytes keys = {0}, walked = {0}, target = {0};
    struct stat st;
    cr_assert_eq(put(s, "d/x", NULL), 0);
    cr_assert_eq(symlink("x", "in/d/l"), 0);
    cr_assert_eq(store_local_list(s, "d/", true, add_key, &keys, NULL), 0);
    cr_expect(strcmp(keys.data, "d/x d/l! ") == 0 || strcmp(keys.data, "d/l! d/x ") == 0, "%s",
              keys.data);
    cr_expect(reads(s, "d/x") && !reads(s, "d/l") && reads(follows, "d/l"));
    cr_expect_eq(store_local_look(s, "d/l", &st, NULL), -1);
    cr_expect_eq(store_local_look(follows, "d/l", &st, NULL), 0);
    /* As a link it can still be copied. */
    cr_expect_eq(store_local_stat(s, "d/l", &st, NULL), 0);
    cr_expect(S_ISLNK(st.st_mode));
    cr_expect_eq(store_local_readlink(s, "d/l", &target, NULL), 0);
    cr_expect_str_eq(target.data, "x");
    cr_expect_eq(store_local_link(s, "d/l", "y", NULL), 0);
    cr_expect_eq(store_local_walk(s, "d/", add_walked, &walked, NULL), 0);
    cr_expect_not_null(strstr(walked.data, "d/l "));
    store_close(follows);
}

Test(no_links, a_folder_that_becomes_a_link_is_closed, .init = begin, .fini = end)
{
    cr_assert_eq(put(s, "a", NULL), 0);
    cr_assert_eq(put(s, "d/f", NULL), 0);
    cr_expect(reads(s, "d/f"));
    cr_assert_eq(rename("in/d", "in/was"), 0);
    cr_assert_eq(symlink("../out", "in/d"), 0);
    expect_closed();
    cr_expect(reads(s, "was/f"));
}

Test(no_links, neither_is_its_own_path_followed, .init = begin, .fini = end)
{
    cr_assert_eq(symlink("..", "out/up"), 0);
    cr_assert_eq(put(s, "d/x", NULL), 0);
    store_close(s);
    s = open_in("out/up/in", &no_links);
    cleanup_bytes struct bytes keys = {0};
    cr_expect(!reads(s, "d/x"));
    cr_expect_eq(put(s, "y", NULL), -1);
    cr_expect_eq(store_local_list(s, "", true, add_key, &keys, NULL), -1);
    cr_expect_eq(store_local_walk(s, "", add_walked, &keys, NULL), -1);
    cr_expect_eq(store_local_level(s, "", add_level, &keys, NULL), -1);
}

/* Between its begin and its end the folder is another one: it goes where it was begun. */
Test(no_links, a_file_that_is_being_written_stays_inside, .init = begin, .fini = end)
{
    static const bool all_named[] = {false, true};
    for (size_t i = 0; i < 2; i++) {
        struct local_file *f;
        struct err err = {0};
        s->all_named = all_named[i];
        cr_assert_eq(store_local_begin(s, "d/f", &f, &err), 0, "%s", err.msg);
        cr_assert_eq(rename("in/d", "in/was"), 0);
        cr_assert_eq(symlink("../out", "in/d"), 0);
        cr_expect_eq(store_local_append(f, "mine", 4, &err), 0, "%s", err.msg);
        cr_expect_eq(store_local_commit(f, NULL, true, &err), 0, "%s", err.msg);
        expect_untouched();
        cr_expect(reads(s, "was/f"));
        cr_assert_eq(unlink("in/d"), 0);
        cr_assert_eq(rename("in/was", "in/d"), 0); /* the next one replaces */
    }
}

Test(no_links, what_is_at_the_end_is_replaced_or_removed, .init = begin, .fini = end)
{
    const struct local_attrs attrs = {.has_mode = true, .mode = 0751};
    struct stat st;
    cr_assert_eq(put(s, "a/b/c", NULL), 0);
    cr_assert_eq(symlink("../out/f", "in/l"), 0);
    cr_expect_eq(store_local_set_attrs(s, "l", &attrs, NULL), 0);
    cr_expect_eq(put(s, "l", NULL), 0);
    cr_expect(reads(s, "l"));
    cr_expect_eq(store_local_set_attrs(s, "l", &attrs, NULL), 0);
    cr_expect_eq(store_local_look(s, "l", &st, NULL), 0);
    cr_expect_eq(st.st_mode & 07777, 0751);
    cr_assert_eq(symlink("../out", "in/m"), 0);
    cr_expect_eq(store_local_delete(s, "m", NULL), 0);
    cr_expect_eq(store_local_stat(s, "m", &st, NULL), -1);
    cr_expect_eq(store_local_rename(s, "a/b/c", "n", NULL), 0);
    cr_expect(reads(s, "n"));
    cr_expect_eq(store_local_remove_folder(s, "a/b/", NULL), 0);
    cr_expect_eq(store_local_stat(s, "a/b", &st, NULL), -1);
    expect_untouched();
}

Test(no_links, what_is_not_there_is_that_alone, .init = begin, .fini = end)
{
    static const char *const keys[] = {"x", "no/x"};
    for (size_t i = 0; i < 2; i++) {
        cleanup_bytes struct bytes target = {0};
        struct err err = {0};
        struct stat st;
        cr_expect_eq(store_local_delete(s, keys[i], &err), 0, "%s", err.msg);
        cr_expect_eq(store_local_remove_folder(s, keys[i], &err), 0, "%s", err.msg);
        cr_expect_eq(store_local_stat(s, keys[i], &st, &err), -1);
        cr_expect_eq(err.class, ERR_NOT_FOUND);
        cr_expect_eq(store_local_look(s, keys[i], &st, &err), -1);
        cr_expect_eq(err.class, ERR_NOT_FOUND);
        cr_expect_eq(store_local_readlink(s, keys[i], &target, &err), -1);
        cr_expect_eq(err.class, ERR_NOT_FOUND);
        cr_expect(!reads(s, keys[i]));
        cr_assert_eq(put(s, "here", &err), 0, "%s", err.msg);
    }
}

/* A folder of this machine: listing, reading what was listed, writing whole files. */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "object-testing.h"

static char dir[] = "/tmp/object-file-XXXXXX";
static struct store *s;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void begin(void)
{
    cr_assert_not_null(mkdtemp(dir));
    cleanup_free char *uri = xasprintf("file://%s", dir);
    s = open_store(uri, NULL);
}

static void end(void)
{
    store_close(s);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* As the product writes: under no name, or a temporary one, and whole at the end. */
static int put_file(const char *key, const void *body, size_t len, struct err *err)
{
    struct local_file *f;
    if (store_local_begin(s, key, &f, err))
        return -1;
    if (store_local_append(f, body, len, err)) {
        store_local_abort(f);
        return -1;
    }
    return store_local_commit(f, NULL, /* durable= */ true, err);
}

static void put(const char *key, const char *text)
{
    struct err err = {0};
    cr_assert_eq(put_file(key, text, strlen(text), &err), 0, "%s", err.msg);
}

static char *at(const char *name)
{
    return xasprintf("%s/%s", dir, name);
}

static int keys_only(void *arg, const struct list_item *item, struct err *err)
{
    (void)err;
    bytes_addf(arg, "%.*s%s;", (int)item->key_len, item->key, item->dangling ? " (dangling)" : "");
    return 0;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Keys, sorted: folders give them in any order. */
static char *list(const char *prefix, bool recurse)
{
    cleanup_bytes struct bytes all = {0};
    struct err err = {0};
    cr_assert_eq(store_local_list(s, prefix, recurse, keys_only, &all, &err), 0, "%s", err.msg);
    char *keys[64];
    size_t n = 0;
    for (char *save, *k = strtok_r(all.data, ";", &save); all.data && k;
         k = strtok_r(NULL, ";", &save))
        keys[n++] = k;
    qsort(keys, n, sizeof keys[0], compare);
    struct bytes out = {0};
    for (size_t i = 0; i < n; i++)
        bytes_addf(&out, "%s ", keys[i]);
    return bytes_take(&out);
}

Test(file, lists_what_is_there, .init = begin, .fini = end)
{
    put("a.txt", "1");
    put("d/e/f.txt", "22");
    put("n\xff", "3");
    cleanup_free char *link = at("link"), *up = at("d/up"), *dangling = at("nothing"),
                      *to_dir = at("todir"), *fifo = at("fifo"), *temp = at(".sampan-put-abc123");
    cr_assert_eq(symlink("a.txt", link), 0);
    cr_assert_eq(symlink("..", up), 0);
    cr_assert_eq(symlink("gone", dangling), 0);
    cr_assert_eq(symlink("d/e", to_dir), 0);
    cr_assert_eq(mkfifo(fifo, 0600), 0);
    close(open(temp, O_CREAT | O_WRONLY, 0600));
    cleanup_free char *flat = list("", false), *all = list("", true), *sub = list("d/", true),
                      *deep = list("d/e", false);
    cr_expect_str_eq(flat, "a.txt d/ link nothing (dangling) n\xff todir/ ");
    cr_expect_str_eq(all, "a.txt d/ d/e/ d/e/f.txt link nothing (dangling) n\xff "
                          "todir/ todir/f.txt ");
    cr_expect_str_eq(sub, "d/e/ d/e/f.txt ");
    cr_expect_str_eq(deep, "d/e/f.txt ");
    cleanup_bytes struct bytes none = {0};
    struct err err = {0};
    cr_expect_eq(store_local_list(s, "nowhere/", true, keys_only, &none, &err), -1);
    cr_expect_eq(err.class, ERR_NOT_FOUND);
}

Test(file, folders_with_links_to_each_other_end, .init = begin, .fini = end)
{
    put("x/f", "1");
    put("y/g", "2");
    cleanup_free char *to_y = at("x/toy"), *to_x = at("y/tox");
    cr_assert_eq(symlink("../y", to_y), 0);
    cr_assert_eq(symlink("../x", to_x), 0);
    cleanup_free char *all = list("", true), *below = list("x/toy/", true);
    cr_expect_str_eq(all, "x/ x/f x/toy/ x/toy/g y/ y/g y/tox/ y/tox/f ");
    cr_expect_str_eq(below, "x/toy/g ");
}

struct seen {
    uint64_t size;
    int64_t mtime_ns;
    char etag[64];
};

static int see(void *arg, const struct list_item *item, struct err *err)
{
    (void)err;
    struct seen *seen = arg;
    seen->size = item->size;
    seen->mtime_ns = item->mtime_ns;
    snprintf(seen->etag, sizeof seen->etag, "%s", item->etag);
    return 0;
}

Test(file, reads_what_was_listed, .init = begin, .fini = end)
{
    put("a", "hello world");
    struct seen was, is;
    struct err err = {0};
    cr_assert_eq(store_local_list(s, "", false, see, &was, &err), 0);
    char buf[16] = {0};
    cr_expect_eq(store_local_read(s, "a", 1, 6, buf, 5, was.size, was.mtime_ns, &err), 0);
    cr_expect_str_eq(buf, "world");
    cr_expect_eq(store_local_read(s, "a", 1, 6, buf, 6, 0, 0, &err), -1);
    cr_expect_eq(err.class, ERR_STALE);
    cr_expect_eq(store_local_read(s, "b", 1, 0, buf, 1, 0, 0, &err), -1);
    cr_expect_eq(err.class, ERR_NOT_FOUND);

    put("a", "HELLO WORLD"); /* the same size, another time: the clock of files is coarse */
    cleanup_free char *path = xasprintf("%s/a", store_local_dir(s));
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1}};
    cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
    cr_assert_eq(store_local_list(s, "", false, see, &is, &err), 0);
    cr_expect_str_neq(was.etag, is.etag);
    cr_expect_eq(store_local_read(s, "a", 1, 0, buf, 5, was.size, was.mtime_ns, &err), -1);
    cr_expect_eq(err.class, ERR_STALE);
    cr_expect_eq(store_local_read(s, "a", 1, 0, buf, 5, 12, 0, &err), -1);
    cr_expect_eq(err.class, ERR_STALE);
}

Test(file, keys_stay_inside, .init = begin, .fini = end)
{
    static const char *const keys[] = {"",     "..",  "../x", "a/../../x", "/etc/passwd",
                                       "a//b", "./a", "a/",   "a/."};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        struct err err = {0};
        char c;
        cr_expect_eq(store_local_read(s, keys[i], strlen(keys[i]), 0, &c, 1, 0, 0, &err), -1,
                     "'%s'", keys[i]);
        cr_expect_eq(err.class, ERR_USAGE, "'%s': %s", keys[i], err.msg);
        cr_expect_eq(put_file(keys[i], "x", 1, &err), -1);
        cr_expect_eq(store_local_delete(s, keys[i], &err), -1);
    }
    struct err err = {0};
    char c;
    cr_expect_eq(store_local_read(s, "a\0b", 3, 0, &c, 1, 0, 0, &err), -1);
    cr_expect_eq(err.class, ERR_USAGE);
}

/* Followed by a look, as by a read, and moved as the link it is. A key that ends in '/' is a
 * folder's. */
Test(file, links_are_looked_through_and_renamed, .init = begin, .fini = end)
{
    struct err err = {0};
    struct stat st;
    put("d/x", "12345");
    put("old", "1");
    cr_assert_eq(store_local_link(s, "l", "d/x", &err), 0);
    cr_assert_eq(store_local_look(s, "l", &st, &err), 0, "%s", err.msg);
    cr_expect_eq(st.st_size, 5);
    cr_expect_eq(store_local_look(s, "d/", &st, &err), 0, "%s", err.msg);
    cr_expect_eq(store_local_look(s, "l/", &st, &err), -1);
    cr_expect_eq(store_local_rename(s, "l", "old", &err), 0, "%s", err.msg);
    cr_expect_eq(store_local_stat(s, "old", &st, &err), 0);
    cr_expect(S_ISLNK(st.st_mode));
    cr_expect_eq(store_local_rename(s, "d/", "e/", &err), 0, "%s", err.msg);
    cr_expect_eq(store_local_look(s, "old", &st, &err), -1, "it leads nowhere now");
    cr_expect_eq(err.class, ERR_NOT_FOUND);
    cr_expect_eq(store_local_rename(s, "../x", "y", &err), -1);
    cr_expect_eq(err.class, ERR_USAGE);
}

Test(file, a_failed_write_leaves_nothing, .init = begin, .fini = end)
{
    put("d/x", "1");
    struct err err = {0};
    cr_expect_eq(put_file("d", "file over a folder", 5, &err), -1);
    cr_expect_eq(put_file("d/x/y", "below a file", 5, &err), -1);
    cleanup_free char *all = list("", true);
    cr_expect_str_eq(all, "d/ d/x ");
    cr_expect_eq(store_local_delete(s, "d/x", &err), 0);
    cr_expect_eq(store_local_delete(s, "d/x", &err), 0);
    cleanup_free char *left = list("", true);
    cr_expect_str_eq(left, "d/ ");
}

/* --- puts that are killed --------------------------------------------------------------------- */

/* From here on this process is killed where it is about to rename a file. */
static void die_at_rename(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#ifdef SYS_rename
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rename, 3, 0),
#endif
#ifdef SYS_renameat
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat, 2, 0),
#endif
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    const struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    cr_assert(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    cr_assert(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

/* True: it was killed. */
static bool put_dies_at_rename(const char *key, const char *text)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct err err = {0};
        die_at_rename();
        _exit(put_file(key, text, strlen(text), &err) ? 1 : 0);
    }
    cr_assert(waitpid(pid, &status, 0) == pid);
    cr_assert(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

/* How many temporary names there are; the last one is in `ret`. */
static size_t temporary(char ret[300])
{
    size_t n = 0;
    DIR *d = opendir(dir);
    for (const struct dirent *e; (e = readdir(d));)
        if (strncmp(e->d_name, ".sampan-put-", 12) == 0) {
            snprintf(ret, 300, "%s/%s", dir, e->d_name);
            n++;
        }
    closedir(d);
    return n;
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void expect_text(const char *key, const char *want)
{
    char have[16] = {0};
    struct err err = {0};
    cr_expect_eq(store_local_read(s, key, strlen(key), 0, have, strlen(want), 0, 0, &err), 0, "%s",
                 err.msg);
    cr_expect_str_eq(have, want);
}

Test(file, a_new_file_never_has_another_name, .init = begin, .fini = end)
{
    char temp[300];
    struct err err = {0};
    cr_expect(!put_dies_at_rename("new", "1"));
    expect_text("new", "1");
    cr_expect_eq(store_local_link(s, "link", "new", &err), 0, "%s", err.msg);
    cr_expect_eq(store_local_link(s, "link", "other", &err), 0, "%s", err.msg);
    cr_expect_eq(temporary(temp), 0);
}

Test(file, what_a_killed_put_left_goes_with_the_next, .init = begin, .fini = end)
{
    static const bool again[] = {true, false};
    char temp[300];
    struct err err = {0};
    for (size_t i = 0; i < sizeof again / sizeof again[0]; i++) {
        put("a", "old");
        put("b", "other");
        cr_expect(put_dies_at_rename("a", "lost"));
        expect_text("a", "old");
        cr_expect_eq(temporary(temp), 1);
        put("b", "another"); /* of another name: it stays */
        cr_expect_eq(temporary(temp), 1);
        if (again[i])
            put("a", "new");
        else
            cr_expect_eq(store_local_delete(s, "a", &err), 0);
        cr_expect_eq(temporary(temp), 0, "row %zu", i);
        if (again[i])
            expect_text("a", "new");
    }
}

Test(file, what_a_living_put_has_is_left_alone, .init = begin, .fini = end)
{
    char temp[300], still[300];
    put("a", "old");
    cr_expect(put_dies_at_rename("a", "mine"));
    cr_assert_eq(temporary(temp), 1);
    int fd = open(temp, O_RDONLY); /* somebody is about to rename it */
    cr_assert(fd >= 0 && flock(fd, LOCK_EX) == 0);
    put("a", "new");
    expect_text("a", "new");
    cr_expect_eq(temporary(still), 1);
    cr_expect_str_eq(still, temp);
    close(fd);
    put("a", "newer");
    cr_expect_eq(temporary(still), 0);
}

/* As on file systems that know no files without names (NFS, many in user space). */
Test(file, with_names_alone_what_is_left_goes_when_it_is_old, .init = begin, .fini = end)
{
    char temp[300], still[300];
    s->all_named = true;
    put("a", "old");
    cr_expect_eq(temporary(temp), 0);
    cr_expect(put_dies_at_rename("a", "lost"));
    cr_assert_eq(temporary(temp), 1);
    put("a", "new"); /* another machine may be about to rename it */
    expect_text("a", "new");
    cr_expect_eq(temporary(still), 1);
    cr_expect_str_eq(still, temp);
    s->left_s = 0;
    put("a", "newer");
    expect_text("a", "newer");
    cr_expect_eq(temporary(still), 0);
}

/* Its process was stopped for so long that another one took the name over. */
Test(file, a_name_that_was_lost_is_not_renamed, .init = begin, .fini = end)
{
    char temp[300];
    struct err err = {0};
    struct local_file *f;
    s->all_named = true;
    put("a", "old");
    cr_assert_eq(store_local_begin(s, "a", &f, NULL), 0);
    cr_assert_eq(store_local_append(f, "mine", 4, NULL), 0);
    cr_assert_eq(temporary(temp), 1);
    cr_assert_eq(unlink(temp), 0);
    write_text(temp, "half of anoth");
    cr_expect_eq(store_local_commit(f, NULL, false, &err), -1);
    cr_expect_eq(err.class, ERR_STALE, "%s", err.msg);
    expect_text("a", "old");
    cr_expect_eq(temporary(temp), 1, "and what is the other's stays");
}

static int nothing_told(void *arg, const char *name, const struct stat *st, const char *etag,
                        struct err *err)
{
    (void)arg, (void)st, (void)etag, (void)err;
    return strncmp(name, ".sampan-put-", 12) == 0 ? -1 : 0;
}

Test(file, a_listing_sweeps_what_nobody_has, .init = begin, .fini = end)
{
    char temp[300], held[300];
    cleanup_free char *link = at(".sampan-put-00000000000a"), *random = at(".sampan-put-abc123");
    cleanup_free char *folder = at(".sampan-put-folder");
    put("a", "old");
    cr_expect(put_dies_at_rename("a", "lost"));
    cr_assert_eq(symlink("a", link), 0);
    write_text(random, "of an older program");
    s->all_named = true;
    put("b", "old");
    cr_expect(put_dies_at_rename("b", "lost"));
    cr_assert_eq(temporary(temp), 4);
    cr_expect_eq(store_local_level(s, "", nothing_told, NULL, NULL), 0);
    cr_expect_eq(temporary(temp), 4, "all are young");
    snprintf(held, sizeof held, "%s", random);
    int fd = open(held, O_RDONLY);
    cr_assert(fd >= 0 && flock(fd, LOCK_EX) == 0);
    cr_assert_eq(mkdir(folder, 0700), 0);
    s->left_s = 0;
    cr_expect_eq(store_local_level(s, "", nothing_told, NULL, NULL), 0);
    cr_expect_eq(temporary(temp), 2, "what somebody has stays, and what is no file");
    cr_expect_eq(access(held, F_OK), 0);
    close(fd);
    cr_expect_eq(store_local_level(s, "", nothing_told, NULL, NULL), 0);
    cr_expect_neq(access(held, F_OK), 0);
    cr_assert_eq(rmdir(folder), 0);
    cr_expect_eq(temporary(temp), 0);
    expect_text("a", "old");
    expect_text("b", "old");
}

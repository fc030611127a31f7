/*
 * posix-rules: what POSIX says about names, permissions, times and wrong calls, checked on a
 * folder.
 *
 *   posix-rules DIR [--store]      --store: a folder kept in an object store: no hard links, no
 *                                  pipes or devices (EPERM), times to the microsecond
 *
 * Works below a new folder of DIR, and as another user where it runs as root. Each rule is a
 * function; each broken one is printed; exit 1 if there are any.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOBODY 65534

static bool on_store;
static unsigned checks, broken;
static const char *rule_name;

__attribute__((format(printf, 2, 3))) static bool check(bool holds, const char *fmt, ...)
{
    va_list ap;

    checks++;
    if (holds)
        return true;
    broken++;
    printf("broken: %s: ", rule_name);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    fflush(stdout);
    return false;
}

/* The call must fail with this errno (0: must not fail). */
#define GIVES(want, call)                                                                        \
    do {                                                                                         \
        errno = 0;                                                                               \
        long rc_ = (long)(call);                                                                 \
        int e_ = rc_ < 0 ? errno : 0;                                                            \
        check(e_ == (want), "%s gives %s, want %s", #call, e_ ? strerrorname_np(e_) : "success", \
              (want) ? strerrorname_np(want) : "success");                                       \
    } while (0)

static int make(const char *path, mode_t mode)
{
    int fd = open(path, O_CREAT | O_EXCL | O_RDWR, mode);

    return fd < 0 ? -1 : close(fd);
}

static struct stat look(const char *path)
{
    struct stat st = {0};

    check(lstat(path, &st) == 0, "lstat %s: %m", path);
    return st;
}

static mode_t mode_of(const char *path)
{
    return look(path).st_mode & 07777;
}

/* --- names ---------------------------------------------------------------------------------- */

static void names_of_255_bytes(void)
{
    char name[300];

    memset(name, 'n', sizeof(name));
    name[255] = '\0';
    GIVES(0, make(name, 0644));
    GIVES(EEXIST, make(name, 0644));
    GIVES(0, unlink(name));
    GIVES(0, mkdir(name, 0755));
    GIVES(0, rmdir(name));
    GIVES(0, symlink("x", name));
    GIVES(0, unlink(name));
    name[255] = 'n';
    name[256] = '\0';
    GIVES(ENAMETOOLONG, make(name, 0644));
    GIVES(ENAMETOOLONG, mkdir(name, 0755));
    GIVES(ENAMETOOLONG, symlink("x", name));
    GIVES(ENAMETOOLONG, unlink(name));
    GIVES(ENAMETOOLONG, rmdir(name));
    GIVES(ENAMETOOLONG, open(name, O_RDONLY));
    GIVES(ENAMETOOLONG, truncate(name, 0));
    GIVES(ENAMETOOLONG, chmod(name, 0644));
    GIVES(0, make("short", 0644));
    GIVES(ENAMETOOLONG, rename("short", name));
    GIVES(ENAMETOOLONG, rename(name, "short"));
}

static void names_that_are_odd(void)
{
    static const char *const names[] = {" ",   "a b",  "%41", "ä€𝄞",   "a+b&c=d?e#f",
                                        "..a", "a...", "'\"", "*[]{}", "\\"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        GIVES(0, make(names[i], 0644));
        check(look(names[i]).st_size == 0, "%s is there", names[i]);
        GIVES(0, rename(names[i], "elsewhere"));
        GIVES(0, rename("elsewhere", names[i]));
        GIVES(0, unlink(names[i]));
    }
}

static void names_that_are_not_there(void)
{
    GIVES(ENOENT, open("absent", O_RDONLY));
    GIVES(ENOENT, open("absent", O_RDWR));
    GIVES(ENOENT, unlink("absent"));
    GIVES(ENOENT, rmdir("absent"));
    GIVES(ENOENT, rename("absent", "x"));
    GIVES(ENOENT, truncate("absent", 0));
    GIVES(ENOENT, chmod("absent", 0644));
    GIVES(ENOENT, mkdir("absent/x", 0755));
    GIVES(ENOENT, make("absent/x", 0644));
    GIVES(ENOENT, symlink("x", "absent/x"));
    GIVES(ENOENT, open("", O_RDONLY));
    GIVES(ENOENT, mkdir("", 0755));
}

static void files_are_no_folders(void)
{
    GIVES(0, make("file", 0644));
    GIVES(ENOTDIR, open("file/x", O_RDONLY));
    GIVES(ENOTDIR, make("file/x", 0644));
    GIVES(ENOTDIR, mkdir("file/x", 0755));
    GIVES(ENOTDIR, unlink("file/x"));
    GIVES(ENOTDIR, rmdir("file"));
    GIVES(ENOTDIR, rmdir("file/x"));
    GIVES(ENOTDIR, symlink("x", "file/x"));
    GIVES(ENOTDIR, rename("file/x", "y"));
    GIVES(ENOTDIR, open("file", O_RDONLY | O_DIRECTORY));
    GIVES(ENOTDIR, open("file/", O_RDONLY));
    GIVES(EEXIST, mkdir("file", 0755));
    GIVES(EEXIST, symlink("x", "file"));
}

static void folders_are_no_files(void)
{
    GIVES(0, mkdir("dir", 0755));
    GIVES(EISDIR, open("dir", O_WRONLY));
    GIVES(EISDIR, open("dir", O_RDWR));
    GIVES(EISDIR, open("dir", O_RDONLY | O_CREAT, 0644));
    GIVES(EISDIR, unlink("dir"));
    GIVES(EISDIR, truncate("dir", 0));
    GIVES(EEXIST, mkdir("dir", 0755));
    GIVES(EEXIST, make("dir", 0644));
    int fd = open("dir", O_RDONLY);
    char c;
    GIVES(EISDIR, read(fd, &c, 1));
    close(fd);
}

/* --- folders -------------------------------------------------------------------------------- */

static void folders_are_removed_empty(void)
{
    GIVES(0, mkdir("dir", 0755));
    GIVES(0, make("dir/file", 0644));
    GIVES(ENOTEMPTY, rmdir("dir"));
    GIVES(0, unlink("dir/file"));
    GIVES(0, mkdir("dir/sub", 0755));
    GIVES(ENOTEMPTY, rmdir("dir"));
    GIVES(0, rmdir("dir/sub"));
    GIVES(EINVAL, rmdir("dir/."));
    GIVES(ENOTEMPTY, rmdir("dir/.."));
    GIVES(0, rmdir("dir"));
    GIVES(ENOENT, rmdir("dir"));
}

static void folders_open_while_removed(void)
{
    GIVES(0, mkdir("dir", 0755));
    int fd = open("dir", O_RDONLY | O_DIRECTORY);
    GIVES(0, rmdir("dir"));
    GIVES(ENOENT, openat(fd, "new", O_CREAT | O_WRONLY, 0644));
    GIVES(ENOENT, mkdirat(fd, "new", 0755));
    close(fd);
}

static void folders_deep(void)
{
    char path[900] = "d";

    for (int i = 0; i < 40; i++) {
        GIVES(0, mkdir(path, 0755));
        strcat(path, "/d");
    }
    GIVES(0, make(path, 0644));
    GIVES(0, unlink(path));
    for (int i = 0; i < 40; i++) {
        *strrchr(path, '/') = '\0';
        GIVES(0, rmdir(path));
    }
}

/* --- rename --------------------------------------------------------------------------------- */

static void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    check(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "write %s: %m", path);
    check(close(fd) == 0, "close %s: %m", path);
}

static bool holds(const char *path, const char *text)
{
    char got[200] = "";
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, got, sizeof(got) - 1);

    if (fd >= 0)
        close(fd);
    return n == (ssize_t)strlen(text) && !strcmp(got, text);
}

static void rename_replaces(void)
{
    write_file("one", "1");
    write_file("two", "22");
    ino_t ino = look("one").st_ino;
    GIVES(0, rename("one", "two"));
    GIVES(ENOENT, access("one", F_OK));
    check(holds("two", "1"), "the content came along");
    check(look("two").st_ino == ino, "the inode came along");
    GIVES(0, rename("two", "two"));
    check(holds("two", "1"), "a rename to itself changes nothing");
}

static void rename_of_folders(void)
{
    GIVES(0, mkdir("from", 0755));
    GIVES(0, mkdir("from/sub", 0755));
    write_file("from/sub/file", "deep");
    GIVES(EINVAL, rename("from", "from/sub/x"));
    GIVES(0, rename("from", "to"));
    check(holds("to/sub/file", "deep"), "all came along");
    GIVES(ENOENT, access("from", F_OK));
    GIVES(0, mkdir("empty", 0755));
    GIVES(ENOTEMPTY, rename("empty", "to"));
    GIVES(0, rename("to", "empty"));
    check(holds("empty/sub/file", "deep"), "over an empty folder");
    GIVES(0, make("file", 0644));
    GIVES(ENOTDIR, rename("empty", "file"));
    GIVES(EISDIR, rename("file", "empty"));
}

static void rename_with_flags(void)
{
    write_file("one", "1");
    write_file("two", "2");
    GIVES(EEXIST, renameat2(AT_FDCWD, "one", AT_FDCWD, "two", RENAME_NOREPLACE));
    check(holds("two", "2"), "nothing was replaced");
    GIVES(0, renameat2(AT_FDCWD, "one", AT_FDCWD, "three", RENAME_NOREPLACE));
    check(holds("three", "1"), "it moved");
    if (renameat2(AT_FDCWD, "three", AT_FDCWD, "two", RENAME_EXCHANGE) < 0)
        check(errno == EINVAL, "exchange: %m");
    else
        check(holds("two", "1") && holds("three", "2"), "they changed places");
}

static void rename_of_open_files(void)
{
    write_file("old", "kept");
    write_file("new", "fresh");
    int fd = open("old", O_RDWR), other = open("new", O_RDWR);
    GIVES(0, rename("new", "old"));
    char got[10] = "";
    check(pread(fd, got, 9, 0) == 4 && !strcmp(got, "kept"), "the replaced file lives on: %s", got);
    check(pwrite(other, "FRESH", 5, 0) == 5, "write through the renamed: %m");
    close(fd);
    close(other);
    check(holds("old", "FRESH"), "what was written after the rename is there");
}

/* --- unlink --------------------------------------------------------------------------------- */

static void unlinked_files_live_on(void)
{
    char got[20] = "";
    struct stat st;

    write_file("file", "content");
    int fd = open("file", O_RDWR);
    GIVES(0, unlink("file"));
    GIVES(ENOENT, access("file", F_OK));
    check(pread(fd, got, 19, 0) == 7 && !strcmp(got, "content"), "read after unlink: %s", got);
    check(pwrite(fd, "more", 4, 7) == 4, "write after unlink: %m");
    check(fstat(fd, &st) == 0 && st.st_size == 11, "size after unlink: %lld",
          (long long)st.st_size);
    check(st.st_nlink == 0, "links after unlink: %lu", (unsigned long)st.st_nlink);
    GIVES(0, ftruncate(fd, 3));
    GIVES(0, fsync(fd));
    GIVES(0, make("file", 0644));
    check(look("file").st_size == 0, "a new file of the name is another");
    GIVES(0, close(fd));
    check(look("file").st_size == 0, "and stays so");
}

/* --- links ---------------------------------------------------------------------------------- */

static void symbolic_links(void)
{
    char got[PATH_MAX] = "", path[PATH_MAX + 8];

    write_file("file", "there");
    GIVES(0, symlink("file", "link"));
    check(readlink("link", got, sizeof(got)) == 4 && !strncmp(got, "file", 4), "readlink: %s", got);
    check(S_ISLNK(look("link").st_mode), "lstat tells a link");
    check(look("link").st_size == 4, "its size is its target's length");
    check(holds("link", "there"), "it is followed");
    GIVES(EINVAL, readlink("file", got, sizeof(got)));
    GIVES(EEXIST, symlink("x", "link"));
    GIVES(ELOOP, open("link", O_RDONLY | O_NOFOLLOW));
    GIVES(0, symlink("nowhere", "dangling"));
    GIVES(ENOENT, open("dangling", O_RDONLY));
    GIVES(0, symlink("loop-b", "loop-a"));
    GIVES(0, symlink("loop-a", "loop-b"));
    GIVES(ELOOP, open("loop-a", O_RDONLY));
    GIVES(ELOOP, chmod("loop-a", 0644));
    GIVES(ELOOP, truncate("loop-a/x", 0));
    memset(path, 'p', sizeof(path));
    path[PATH_MAX - 1] = '\0';
    GIVES(0, symlink(path, "long"));
    check(readlink("long", got, sizeof(got)) == PATH_MAX - 1, "a target of %d bytes", PATH_MAX - 1);
    path[PATH_MAX - 1] = 'p';
    path[PATH_MAX] = '\0';
    GIVES(ENAMETOOLONG, symlink(path, "longer"));
    GIVES(0, unlink("link"));
    check(holds("file", "there"), "the target stays");
    GIVES(0, rename("dangling", "moved"));
    check(S_ISLNK(look("moved").st_mode), "a link is renamed as one");
}

static void hard_links(void)
{
    write_file("file", "x");
    check(look("file").st_nlink == 1, "one link");
    if (on_store) {
        GIVES(EPERM, link("file", "other"));
        GIVES(ENOENT, access("other", F_OK));
        return;
    }
    GIVES(0, link("file", "other"));
    check(look("file").st_nlink == 2, "two links");
}

static void other_kinds(void)
{
    GIVES(0, mknod("regular", S_IFREG | 0640, 0));
    check(S_ISREG(look("regular").st_mode) && mode_of("regular") == 0640, "mknod of a file");
    if (on_store) {
        GIVES(EPERM, mkfifo("pipe", 0644));
        GIVES(EPERM, mknod("socket", S_IFSOCK | 0644, 0));
    }
}

/* --- open ----------------------------------------------------------------------------------- */

static void open_flags(void)
{
    char c;

    write_file("file", "text");
    GIVES(EEXIST, open("file", O_CREAT | O_EXCL | O_WRONLY, 0644));
    int fd = open("file", O_RDONLY);
    GIVES(EBADF, write(fd, "x", 1));
    GIVES(EINVAL, ftruncate(fd, 0));
    close(fd);
    fd = open("file", O_WRONLY);
    GIVES(EBADF, read(fd, &c, 1));
    close(fd);
    fd = open("file", O_WRONLY | O_APPEND);
    check(write(fd, "+1", 2) == 2 && lseek(fd, 0, SEEK_SET) == 0 && write(fd, "+2", 2) == 2, "%m");
    close(fd);
    check(holds("file", "text+1+2"), "both were appended");
    fd = open("file", O_RDWR | O_TRUNC);
    check(look("file").st_size == 0, "O_TRUNC empties");
    close(fd);
    fd = open("made", O_RDWR | O_CREAT, 0400);
    check(fd >= 0 && write(fd, "x", 1) == 1, "a file made 0400 is written by its maker: %m");
    close(fd);
    check(mode_of("made") == 0400, "and keeps that mode");
    write_file("file", "text");
    GIVES(ENXIO, lseek(fd = open("file", O_RDONLY | O_TRUNC), 1, SEEK_DATA)); /* as Linux has it */
    close(fd);
    check(holds("file", ""), "O_TRUNC empties for a reader, too");
    GIVES(EINVAL, truncate("file", -1));
}

static void sizes(void)
{
    char got[8];

    int fd = open("file", O_RDWR | O_CREAT, 0644);
    check(pwrite(fd, "end", 3, 1 << 20) == 3, "write beyond the end: %m");
    check(look("file").st_size == (1 << 20) + 3, "the size follows");
    check(pread(fd, got, 8, 1000) == 8 && !memcmp(got, "\0\0\0\0\0\0\0\0", 8), "a hole is zeros");
    GIVES(0, ftruncate(fd, 2));
    GIVES(0, ftruncate(fd, 10));
    check(pread(fd, got, 8, 2) == 8 && !memcmp(got, "\0\0\0\0\0\0\0\0", 8), "grown with zeros");
    check(pread(fd, got, 8, 10) == 0, "the end is the end");
    check(write(fd, "", 0) == 0, "a write of nothing");
    close(fd);
}

/* --- modes and owners ----------------------------------------------------------------------- */

static void modes(void)
{
    mode_t old = umask(027);

    GIVES(0, make("file", 0666));
    check(mode_of("file") == 0640, "umask of a file: %o", mode_of("file"));
    GIVES(0, mkdir("dir", 0777));
    check(mode_of("dir") == 0750, "umask of a folder: %o", mode_of("dir"));
    umask(0);
    for (mode_t m = 0; m <= 0777; m += 0111) {
        GIVES(0, chmod("file", m));
        check(mode_of("file") == m, "chmod %o gives %o", m, mode_of("file"));
    }
    GIVES(0, chmod("dir", 01777));
    check(mode_of("dir") == 01777, "sticky");
    GIVES(0, chmod("dir", 02755));
    check(mode_of("dir") == 02755, "set-gid");
    umask(old);
}

static bool new_enough(const struct timespec *t, const struct timespec *than)
{
    return t->tv_sec > than->tv_sec || (t->tv_sec == than->tv_sec && t->tv_nsec > than->tv_nsec);
}

static void pause_a_little(void)
{
    const struct timespec t = {.tv_nsec = 20 * 1000 * 1000};

    nanosleep(&t, NULL);
}

/* --- times ---------------------------------------------------------------------------------- */

static void times_that_are_set(void)
{
    struct timespec t[2] = {{.tv_sec = 1000000000, .tv_nsec = 123456000},
                            {.tv_sec = 1500000000, .tv_nsec = 654321000}};

    write_file("file", "x");
    GIVES(0, utimensat(AT_FDCWD, "file", t, 0));
    struct stat st = look("file");
    check(st.st_mtim.tv_sec == 1500000000 && st.st_mtim.tv_nsec == 654321000, "mtime %lld.%09ld",
          (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    t[0].tv_nsec = UTIME_OMIT;
    t[1].tv_nsec = UTIME_NOW;
    GIVES(0, utimensat(AT_FDCWD, "file", t, 0));
    check(look("file").st_mtim.tv_sec > 1600000000, "now");
    GIVES(0, symlink("file", "link"));
    t[1] = (struct timespec){.tv_sec = 1234567890};
    GIVES(0, utimensat(AT_FDCWD, "link", t, AT_SYMLINK_NOFOLLOW));
    check(look("file").st_mtim.tv_sec > 1600000000, "the link's own time was meant");
    GIVES(0, mkdir("dir", 0755));
    GIVES(0, utimensat(AT_FDCWD, "dir", t, 0));
    check(look("dir").st_mtim.tv_sec == 1234567890, "a folder's time");
}

static void times_that_follow(void)
{
    write_file("file", "x");
    GIVES(0, mkdir("dir", 0755));
    struct stat file = look("file"), dir = look("dir");
    pause_a_little();
    int fd = open("file", O_WRONLY);
    check(pwrite(fd, "y", 1, 0) == 1, "write: %m");
    close(fd);
    struct stat now = look("file");
    check(new_enough(&now.st_mtim, &file.st_mtim), "a write moves mtime");
    check(new_enough(&now.st_ctim, &file.st_ctim), "a write moves ctime");
    file = now;
    pause_a_little();
    GIVES(0, chmod("file", 0600));
    now = look("file");
    check(new_enough(&now.st_ctim, &file.st_ctim), "chmod moves ctime");
    check(now.st_mtim.tv_sec == file.st_mtim.tv_sec && now.st_mtim.tv_nsec == file.st_mtim.tv_nsec,
          "chmod leaves mtime");
    pause_a_little();
    GIVES(0, make("dir/file", 0644));
    now = look("dir");
    check(new_enough(&now.st_mtim, &dir.st_mtim), "a new file moves the folder's mtime");
    dir = now;
    pause_a_little();
    GIVES(0, unlink("dir/file"));
    now = look("dir");
    check(new_enough(&now.st_mtim, &dir.st_mtim), "unlink moves the folder's mtime");
    file = look("file");
    pause_a_little();
    GIVES(0, truncate("file", 0));
    now = look("file");
    check(new_enough(&now.st_mtim, &file.st_mtim), "truncate moves mtime");
}

/* --- locks ---------------------------------------------------------------------------------- */

static void locks(void)
{
    GIVES(0, make("file", 0644));
    int a = open("file", O_RDWR), b = open("file", O_RDWR);
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10};

    GIVES(0, flock(a, LOCK_EX));
    GIVES(EWOULDBLOCK, flock(b, LOCK_EX | LOCK_NB));
    GIVES(0, flock(a, LOCK_UN));
    GIVES(0, flock(b, LOCK_SH));
    close(b);
    GIVES(0, fcntl(a, F_SETLK, &range));
    pid_t child = fork();
    if (!child) {
        range.l_type = F_WRLCK;
        _exit(fcntl(open("file", O_RDWR), F_SETLK, &range) < 0 &&
                      (errno == EAGAIN || errno == EACCES)
                  ? 0
                  : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    check(status == 0, "another process gets no lock");
    close(a);
}

/* --- another user --------------------------------------------------------------------------- */

static void as_nobody(void (*fn)(void))
{
    pid_t child;
    int status = 0;

    fflush(stdout);
    child = fork();
    if (!child) {
        unsigned before = broken;
        if (setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0)
            _exit(100);
        fn();
        fflush(stdout);
        _exit(broken > before ? 1 : 0);
    }
    waitpid(child, &status, 0);
    broken += status != 0;
}

static void nobody_tries(void)
{
    GIVES(EACCES, open("secret", O_RDONLY));
    GIVES(EACCES, open("mine/x", O_CREAT | O_WRONLY, 0644));
    GIVES(EACCES, unlink("mine/file"));
    GIVES(EACCES, mkdir("mine/sub", 0755));
    GIVES(EACCES, rename("mine/file", "open/file"));
    GIVES(EPERM, chmod("secret", 0777));
    GIVES(EPERM, chown("secret", NOBODY, (gid_t)-1));
    GIVES(EACCES, truncate("secret", 0));
    GIVES(EPERM, unlink("sticky/roots"));
    GIVES(EPERM, rename("sticky/roots", "sticky/other"));
    GIVES(0, make("open/his", 0600));
    check(look("open/his").st_uid == NOBODY, "the maker owns it");
    GIVES(0, chmod("open/his", 04755));
    int fd = open("open/his", O_WRONLY);
    check(write(fd, "x", 1) == 1, "write: %m");
    close(fd);
    check(!(mode_of("open/his") & S_ISUID), "a write takes set-uid away: %o", mode_of("open/his"));
    fd = open("open/his", O_WRONLY);
    GIVES(0, chmod("open/his", 06755));
    check(write(fd, "x", 1) == 1, "write: %m");
    close(fd);
    check(mode_of("open/his") == 0755, "and what came after the open: %o", mode_of("open/his"));
    GIVES(EPERM, chown("open/his", 0, (gid_t)-1));
    GIVES(EACCES, open("closed/file", O_RDONLY));
    struct timespec t[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    GIVES(EPERM, utimensat(AT_FDCWD, "readable", t, 0));
    GIVES(EACCES, access("readable", W_OK));
    GIVES(0, access("readable", R_OK));
}

static void other_users(void)
{
    if (geteuid() != 0)
        return;
    mode_t old = umask(0);
    GIVES(0, make("secret", 0600));
    GIVES(0, make("readable", 0644));
    GIVES(0, mkdir("mine", 0755));
    GIVES(0, make("mine/file", 0666));
    GIVES(0, mkdir("open", 0777));
    GIVES(0, mkdir("sticky", 01777));
    GIVES(0, make("sticky/roots", 0666));
    GIVES(0, mkdir("closed", 0700));
    GIVES(0, make("closed/file", 0666));
    as_nobody(nobody_tries);
    GIVES(0, chown("secret", NOBODY, 12));
    check(look("secret").st_uid == NOBODY && look("secret").st_gid == 12, "chown");
    GIVES(0, chmod("secret", 06755));
    GIVES(0, mkdir("group", 0777));
    GIVES(0, chown("group", 0, 12));
    GIVES(0, chmod("group", 02777));
    GIVES(0, make("group/file", 0644));
    check(look("group/file").st_gid == 12, "a set-gid folder hands its group down: %u",
          look("group/file").st_gid);
    GIVES(0, mkdir("group/sub", 0755));
    check(mode_of("group/sub") == 02755, "and its set-gid to folders: %o", mode_of("group/sub"));
    umask(old);
}

/* --- the whole ------------------------------------------------------------------------------ */

static void the_whole(void)
{
    struct statvfs v;

    GIVES(0, statvfs(".", &v));
    check(v.f_namemax == 255, "names of up to %lu bytes", v.f_namemax);
    check(v.f_blocks > 0 && v.f_bavail <= v.f_blocks, "blocks");
    check(look(".").st_ino != 0 && S_ISDIR(look(".").st_mode), "a root");
    int fd = open(".", O_RDONLY | O_DIRECTORY);
    GIVES(0, fsync(fd));
    close(fd);
}

static const struct rule {
    const char *name;
    void (*fn)(void);
} rules[] = {
#define RULE(fn) \
    {            \
#fn, fn  \
    }
    RULE(names_of_255_bytes),
    RULE(names_that_are_odd),
    RULE(names_that_are_not_there),
    RULE(files_are_no_folders),
    RULE(folders_are_no_files),
    RULE(folders_are_removed_empty),
    RULE(folders_open_while_removed),
    RULE(folders_deep),
    RULE(rename_replaces),
    RULE(rename_of_folders),
    RULE(rename_with_flags),
    RULE(rename_of_open_files),
    RULE(unlinked_files_live_on),
    RULE(symbolic_links),
    RULE(hard_links),
    RULE(other_kinds),
    RULE(open_flags),
    RULE(sizes),
    RULE(modes),
    RULE(times_that_are_set),
    RULE(times_that_follow),
    RULE(locks),
    RULE(other_users),
    RULE(the_whole),
};

int main(int argc, char **argv)
{
    on_store = argc > 2 && !strcmp(argv[2], "--store");
    if (argc < 2 || chdir(argv[1]) < 0) {
        fprintf(stderr, "posix-rules DIR [--store]\n");
        return 2;
    }
    umask(022);
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        rule_name = rules[i].name;
        if (mkdir(rule_name, 0755) < 0 || chdir(rule_name) < 0) {
            perror(rule_name);
            return 2;
        }
        rules[i].fn();
        if (chdir("..") < 0)
            return 2;
    }
    printf("posix-rules: %zu rules, %u checks, %u broken\n", sizeof(rules) / sizeof(rules[0]),
           checks, broken);
    return broken ? 1 : 0;
}

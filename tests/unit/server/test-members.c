#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mem.h"
#include "members.h"

static void list_is(const char *text, bool lines, unsigned partitions, const char *want)
{
    cleanup_member_list struct member_list l = {0};
    cleanup_bytes struct bytes got = {0};
    struct err err = {0};
    int rc = members_parse(text, lines, partitions, &l, &err);
    for (size_t i = 0; i < l.n; i++)
        bytes_addf(&got, "%s%s", i ? " " : "", l.urls[i]);
    if (l.service)
        bytes_add_str(&got, " service");
    cr_assert_str_eq(rc ? err.msg : got.data, want, "of \"%s\"", text);
}

Test(members, lists)
{
    list_is("http://a:1", false, 1, "http://a:1");
    list_is("http://a:1", false, 2, "http://a:1 service");
    list_is("http://a:1,http://b:2/", false, 2, "http://a:1 http://b:2");
    list_is(" https://[::1]:7716 , ,http://10.0.0.1:80,", false, 2,
            "https://[::1]:7716 http://10.0.0.1:80");
    list_is("http://s-{k}.s:7716", false, 3,
            "http://s-0.s:7716 http://s-1.s:7716 http://s-2.s:7716");
    list_is("http://s-{k}.s:7716", false, 1, "http://s-0.s:7716");
    list_is("# all\n\nhttp://a:1 # one\r\n\thttp://b:2\n", true, 2, "http://a:1 http://b:2");
    list_is("http://a:1\n", true, 2, "http://a:1 service");
}

Test(members, bad_lists)
{
    static const char want[] = "want http://HOST:PORT or https://HOST:PORT";
    const char *const bad[] = {"a:1",          "ftp://a:1",     "http://a",        "http://a:",
                               "http://:1",    "http://a:b",    "http://a:1/x",    "http://u@a:1",
                               "http://a:1?x", "http://a:1#x",  "http://a:123456", "http://a b:1",
                               "http://a:1//", "http://a:65536"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[200];
        snprintf(text, sizeof text, "\"%.*s\": %s",
                 (int)strlen(bad[i]) - (bad[i][strlen(bad[i]) - 1] == '/'), bad[i], want);
        list_is(bad[i], false, 2, text);
    }
    list_is("", false, 2, "no server is named (want http://HOST:PORT)");
    list_is("# none\n \n", true, 2, "no server is named (want http://HOST:PORT)");
    char text[200];
    snprintf(text, sizeof text, "line 2: \"x\": %s", want);
    list_is("http://a:1\nx\n", true, 2, text);
}

/* --- a file ----------------------------------------------------------------------------------- */

/* In the place of the library's: a file may not be opened, so often. */
static const char *barred;
static atomic_int bars;

int open(const char *path, int flags, ...)
{
    if (barred && strcmp(path, barred) == 0 && atomic_load(&bars) > 0) {
        atomic_fetch_sub(&bars, 1);
        errno = EMFILE;
        return -1;
    }
    return openat(AT_FDCWD, path, flags, 0600);
}

/* In the place of the library's: the name of a service has an address from the second time on that
 * it is looked up. */
static atomic_int lookups;

int getaddrinfo(const char *restrict name, const char *restrict service,
                const struct addrinfo *restrict want, struct addrinfo **restrict ret)
{
    typedef int resolve_fn(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    resolve_fn *resolve = (resolve_fn *)(uintptr_t)dlsym(RTLD_NEXT, "getaddrinfo");
    if (!name || strcmp(name, "service.test") != 0)
        return resolve(name, service, want, ret);
    if (atomic_fetch_add(&lookups, 1) == 0)
        return EAI_AGAIN;
    return resolve("127.0.0.1", service, want, ret);
}

/* Always with the same time of its last write. */
static void put_list(const char *path, const char *text)
{
    static const struct timespec at[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    cleanup_free char *new = xasprintf("%s.new", path);
    int fd = openat(AT_FDCWD, new, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    cr_assert(futimens(fd, at) == 0 && close(fd) == 0 && rename(new, path) == 0);
}

static void no_token(void *arg, struct secret *ret)
{
    (void)arg;
    (void)ret;
}

static void wait_for_url(struct members *m, unsigned ordinal, const char *want)
{
    cleanup_bytes struct bytes url = {0};
    while (members_state(m, ordinal, &url, NULL), strcmp(url.data, want) != 0)
        usleep(10000);
}

static char dir[] = "/tmp/server-members-XXXXXX";
static char *path;
static FILE *out;
static struct members_conf conf;

static void begin(const char *list)
{
    cr_assert(mkdtemp(dir));
    path = xasprintf("%s/peers", dir);
    out = fopen("/dev/null", "we");
    conf = (struct members_conf){.peers = path,
                                 .partitions = 2,
                                 .instance = "0123",
                                 .token = no_token,
                                 .log = log_new(out, LOG_INFO, LOG_TEXT, "test")};
    put_list(path, list);
}

static void end(struct members *m)
{
    members_close(m);
    log_free(conf.log);
    fclose(out);
    unlink(path);
    free(path);
    rmdir(dir);
}

/* One that takes the place of another is seen whatever it has in common with that; what could not
 * be read is read later. */
Test(members, the_file_is_followed, .timeout = 900)
{
    struct members *m = NULL;
    struct err err = {0};
    begin("http://127.0.0.1:1\nhttp://127.0.0.1:2\n");
    barred = path; /* before threads look at it */
    cr_assert(members_open(&m, &conf, &err) == 0, "%s", err.msg);
    wait_for_url(m, 1, "http://127.0.0.1:2");
    put_list(path, "http://127.0.0.1:1\nhttp://127.0.0.1:3\n");
    wait_for_url(m, 1, "http://127.0.0.1:3");
    atomic_store(&bars, 1);
    put_list(path, "http://127.0.0.1:1\nhttp://127.0.0.1:4\n");
    wait_for_url(m, 1, "http://127.0.0.1:4");
    cr_expect_eq(atomic_load(&bars), 0);
    end(m);
    barred = NULL;
}

/* The name of a service that a file names is looked up again, though the file stays as it is: it
 * may have no address yet, and others later. */
Test(members, a_name_in_a_file_is_looked_up_again, .timeout = 900)
{
    struct members *m = NULL;
    struct err err = {0};
    begin("http://service.test:1\n");
    cr_assert(members_open(&m, &conf, &err) == 0, "%s", err.msg);
    while (atomic_load(&lookups) < 3)
        usleep(10000);
    end(m);
}

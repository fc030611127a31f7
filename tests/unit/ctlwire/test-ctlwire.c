/* The wire, the client's view of answers, sockets below long paths, and the register of mounts. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "control.h"
#include "mem.h"

static void add(struct bytes *b, const char *text)
{
    bytes_clear(b);
    bytes_add_str(b, text);
}

Test(wire, message_and_descriptor_travel)
{
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    cleanup_bytes struct bytes out = {0}, in = {0};
    add(&out, "{\"op\":\"ping\"}");
    int sent = open("/dev/null", O_RDONLY);
    cr_assert_eq(control_send(pair[0], &out, sent, NULL), 0);
    int got = -1;
    cr_assert_eq(control_recv(pair[1], &in, &got, NULL), 0);
    cr_assert_str_eq(in.data, out.data);
    struct stat a, b;
    cr_assert(fstat(sent, &a) == 0 && fstat(got, &b) == 0);
    cr_assert_eq(a.st_rdev, b.st_rdev);
}

Test(wire, many_descriptors_travel_and_too_many_are_closed)
{
    int pair[2], sent[CONTROL_FDS_MAX], got[CONTROL_FDS_MAX];
    size_t n = 0;
    struct err err = {0};
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    cleanup_bytes struct bytes out = {0}, in = {0};
    add(&out, "{}");
    for (int i = 0; i < CONTROL_FDS_MAX; i++)
        sent[i] = open(i % 2 ? "/dev/null" : "/dev/zero", O_RDONLY);
    int next = dup(0);
    close(next);
    cr_assert_eq(control_send_fds(pair[0], &out, sent, CONTROL_FDS_MAX, NULL), 0);
    cr_assert_eq(control_recv_fds(pair[1], &in, got, CONTROL_FDS_MAX, &n, NULL), 0);
    cr_assert_eq(n, CONTROL_FDS_MAX);
    for (size_t i = 0; i < n; i++) {
        struct stat a, b;
        cr_assert(fstat(sent[i], &a) == 0 && fstat(got[i], &b) == 0);
        cr_expect_eq(a.st_rdev, b.st_rdev, "descriptor %zu", i);
        close(got[i]);
    }
    cr_assert_eq(control_send_fds(pair[0], &out, sent, 3, NULL), 0);
    cr_assert_eq(control_recv_fds(pair[1], &in, got, 1, &n, NULL), 0);
    cr_assert_eq(n, 1);
    close(got[0]);
    int after = dup(0);
    cr_expect_eq(after, next, "descriptors nobody wanted stayed open");
    cr_expect_eq(control_send_fds(pair[0], &out, sent, CONTROL_FDS_MAX + 1, &err), -1);
    cr_expect_eq(err.class, ERR_BUG);
}

Test(wire, end_truncation_and_lies_are_told_apart)
{
    static const struct {
        const char *bytes;
        size_t len;
        enum err_class class;
    } rows[] = {
        {"", 0, ERR_NOT_FOUND},
        {"\x05\0", 2, ERR_TRANSIENT},
        {"\x05\0\0\0ab", 6, ERR_TRANSIENT},
        {"\x05\0\0\0", 4, ERR_TRANSIENT},
        {"\xff\xff\xff\x7f", 4, ERR_CORRUPT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int pair[2];
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        if (rows[i].len)
            cr_assert_eq(write(pair[0], rows[i].bytes, rows[i].len), (ssize_t)rows[i].len);
        close(pair[0]);
        cleanup_bytes struct bytes in = {0};
        struct err err = {0};
        cr_assert_eq(control_recv(pair[1], &in, NULL, &err), -1);
        cr_assert_eq(err.class, rows[i].class, "row %zu: %s", i, err.msg);
        close(pair[1]);
    }
}

/* Who waits no longer is not told that the other side has ended. */
Test(wire, a_rest_that_does_not_come_is_late)
{
    const struct timeval patience = {.tv_usec = 1000};
    int pair[2];
    cleanup_bytes struct bytes in = {0};
    struct err err = {0};
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    cr_assert_eq(setsockopt(pair[1], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    cr_assert_eq(write(pair[0], "\x05\0\0\0ab", 6), 6);
    cr_assert_eq(control_recv(pair[1], &in, NULL, &err), -1);
    cr_assert_eq(err.sys, EAGAIN, "%s", err.msg);
    close(pair[0]);
    close(pair[1]);
}

struct script {
    int listener;
    const char *const *answers;
    bool turns_away;
};

/* Answers one request with the given messages; one that is turned away before it was heard. */
static void *serve(void *p)
{
    struct script *s = p;
    int sock = accept(s->listener, NULL, NULL);
    cleanup_bytes struct bytes msg = {0};
    if (!s->turns_away)
        control_recv(sock, &msg, NULL, NULL);
    for (size_t i = 0; s->answers[i]; i++) {
        add(&msg, s->answers[i]);
        control_send(sock, &msg, -1, NULL);
    }
    close(sock);
    return NULL;
}

static bool count_progress(void *arg, const struct json *progress)
{
    int64_t done;
    if (!progress) /* there was none for a while */
        return true;
    cr_assert_eq(json_int(progress, "done", 0, 100, &done, NULL), 0);
    *(int64_t *)arg += done;
    return true;
}

static int call_with(const struct bytes *request, bool turned_away, const char *const *answers,
                     int64_t *progress, struct json_doc **ret, struct err *err)
{
    /* A folder path far longer than a socket address. */
    char folder[300] = "/tmp/sampan-ctl-XXXXXX";
    cr_assert(mkdtemp(folder));
    size_t len = strlen(folder);
    snprintf(folder + len, sizeof folder - len, "/%0200d", 7);
    cr_assert_eq(mkdir(folder, 0700), 0);
    cleanup_free char *path = xasprintf("%s/control.sock", folder);
    struct script s = {.answers = answers, .turns_away = turned_away};
    cr_assert_eq(control_listen(path, &s.listener, NULL), 0);
    struct stat st;
    cr_assert(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, serve, &s), 0);
    int failed = control_call(path, request, count_progress, progress, ret, NULL, err);
    pthread_join(thread, NULL);
    close(s.listener);
    struct err gone = {0};
    int sock;
    cr_assert_eq(control_connect(path, &sock, &gone), -1);
    cr_assert_eq(gone.class, ERR_NOT_FOUND);
    cr_assert_eq(control_listen(path, &sock, NULL), 0, "a dead owner's socket is replaced");
    close(sock);
    unlink(path);
    rmdir(folder);
    folder[len] = '\0';
    rmdir(folder);
    return failed;
}

static int call(const char *const *answers, int64_t *progress, struct json_doc **ret,
                struct err *err)
{
    cleanup_bytes struct bytes request = {0};
    add(&request, "{\"op\":\"x\"}");
    return call_with(&request, false, answers, progress, ret, err);
}

Test(client, progress_then_answer)
{
    int64_t progress = 0;
    struct json_doc *doc = NULL;
    struct err err = {0};
    const char *answers[] = {"{\"progress\":{\"done\":3}}", "{\"progress\":{\"done\":4}}",
                             "{\"ok\":true,\"pid\":42}", NULL};
    cr_assert_eq(call(answers, &progress, &doc, &err), 0, "%s", err.msg);
    cr_assert_eq(progress, 7);
    struct json root = json_root(doc);
    int64_t pid;
    cr_assert_eq(json_int(&root, "pid", 0, 100, &pid, NULL), 0);
    cr_assert_eq(pid, 42);
    json_doc_free(doc);
}

Test(client, one_that_hangs_is_not_waited_for)
{
    char path[] = "/tmp/sampan-ctl-XXXXXX/control.sock";
    char *slash = strrchr(path, '/');
    *slash = '\0';
    cr_assert(mkdtemp(path));
    *slash = '/';
    int listener; /* whom nobody accepts */
    cr_assert_eq(control_listen(path, &listener, NULL), 0);
    cleanup_bytes struct bytes request = {0};
    add(&request, "{\"op\":\"status\"}");
    struct err err = {0};
    cr_expect_eq(control_ask(path, &request, 100, 1, NULL, &err), -1);
    cr_expect_eq(err.class, ERR_TRANSIENT);
    cr_expect_not_null(strstr(err.msg, "no answer within 1 s"), "%s", err.msg);
    close(listener);
    unlink(path);
    *slash = '\0';
    rmdir(path);
}

Test(client, refusals_keep_their_class)
{
    static const struct {
        const char *answer;
        enum err_class class;
        const char *text;
    } rows[] = {
        {"{\"ok\":false,\"class\":\"limit\",\"error\":\"full\"}", ERR_LIMIT, "full"},
        {"{\"ok\":false,\"class\":\"odd\",\"error\":\"x\"}", ERR_FAILED, "x"},
        {"{\"ok\":false}", ERR_FAILED, "refused without a reason"},
        {"not JSON", ERR_CORRUPT, NULL},
        {NULL, ERR_NOT_FOUND, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t progress = 0;
        struct err err = {0};
        const char *answers[] = {rows[i].answer, NULL};
        cr_assert_eq(call(answers, &progress, NULL, &err), -1);
        if (rows[i].text) {
            cr_assert_eq(err.class, rows[i].class, "row %zu: %s", i, err.msg);
            cr_assert_str_eq(err.msg, rows[i].text);
        }
    }
}

/* The request is longer than what fits between the two, so it is never said whole. */
Test(client, who_is_turned_away_hears_why)
{
    static const char *const answers[] = {
        "{\"ok\":false,\"class\":\"limit\",\"error\":\"32 clients are served already\"}", NULL};
    static const char *const nothing[] = {NULL};
    cleanup_bytes struct bytes request = {0};
    int64_t progress = 0;
    struct err err = {0};
    for (size_t i = 0; i < 4u << 20; i++)
        bytes_add_char(&request, ' ');
    cr_assert_eq(call_with(&request, true, answers, &progress, NULL, &err), -1);
    cr_expect_eq(err.class, ERR_LIMIT, "%s", err.msg);
    cr_expect_str_eq(err.msg, "32 clients are served already");
    cr_assert_eq(call_with(&request, true, nothing, &progress, NULL, &err), -1);
    cr_expect(strstr(err.msg, "control socket: send"), "%s", err.msg);
}

Test(client, a_living_owner_is_not_replaced)
{
    char folder[] = "/tmp/sampan-ctl-XXXXXX";
    cr_assert(mkdtemp(folder));
    cleanup_free char *path = xasprintf("%s/control.sock", folder);
    int first, second;
    struct err err = {0};
    cr_assert_eq(control_listen(path, &first, &err), 0, "%s", err.msg);
    cr_assert_eq(control_listen(path, &second, &err), -1);
    cr_assert_eq(err.class, ERR_LIMIT);
    close(first);
    unlink(path);
    rmdir(folder);
}

Test(registry, entries_come_back_and_say_who_lives)
{
    char folder[] = "/tmp/sampan-run-XXXXXX";
    cr_assert(mkdtemp(folder));
    setenv("SAMPAN_RUN_DIR", folder, 1);
    pid_t child = fork();
    if (child == 0)
        _exit(control_register("/mnt/dead one", "s3://b/x", "/c/control.sock", 0, NULL) ? 1 : 0);
    int status;
    cr_assert(waitpid(child, &status, 0) == child && status == 0);
    cr_assert_eq(control_register("/mnt/alive", "file:///d", "/d/control.sock", 0, NULL), 0);
    cr_assert_eq(control_register("/mnt/alive", "file:///d", "/e/control.sock", 0, NULL), 0);

    struct control_mount *list;
    size_t n;
    cr_assert_eq(control_mounts(&list, &n, NULL), 0);
    cr_assert_eq(n, 2);
    cr_assert_str_eq(list[0].mountpoint, "/mnt/alive");
    cr_assert_str_eq(list[0].socket, "/e/control.sock");
    cr_assert(list[0].alive && !list[0].mounted && list[0].pid == getpid());
    cr_assert_str_eq(list[1].mountpoint, "/mnt/dead one");
    cr_assert(!list[1].alive);
    control_mounts_free(list, n);

    struct control_mount one;
    cr_assert_eq(control_find("/mnt/alive/class/a.jpg", &one, NULL), 0);
    cr_assert_str_eq(one.uri, "file:///d");
    control_mount_release(&one);
    struct err err = {0};
    cr_assert_eq(control_find("/mnt/alive2", &one, &err), -1);
    cr_assert_eq(err.class, ERR_NOT_FOUND);
    control_forget("/mnt/alive");
    cr_assert_eq(control_find("/mnt/alive", &one, NULL), 0, "its process lives");
    control_mount_release(&one);
    control_unregister("/mnt/alive");
    control_forget("/mnt/dead one");
    cr_assert_eq(rmdir(folder), 0, "nothing is left: %s", strerror(errno));
}

/* Killed before it had written all of it, or before it was renamed. */
Test(registry, half_an_entry_is_forgotten)
{
    char folder[] = "/tmp/sampan-run-XXXXXX", path[512];
    cr_assert(mkdtemp(folder));
    setenv("SAMPAN_RUN_DIR", folder, 1);
    cr_assert_eq(control_register("/mnt/one", "file:///d", "/d/control.sock", 0, NULL), 0);
    DIR *dir = opendir(folder);
    struct dirent *d;
    while ((d = readdir(dir)) && *d->d_name == '.')
        continue;
    cr_assert(d);
    snprintf(path, sizeof path, "%s/%s.new", folder, d->d_name);
    closedir(dir);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    cr_assert(fd >= 0 && write(fd, "{", 1) == 1);
    close(fd);
    control_unregister("/mnt/one");
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    close(fd);
    control_forget("/mnt/one");
    cr_assert_eq(rmdir(folder), 0, "nothing is left: %s", strerror(errno));
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* Mounts of a program of another version are listed, too. */
Test(registry, keys_of_another_version_are_left_alone)
{
    char folder[] = "/tmp/sampan-run-XXXXXX", path[64];
    struct control_mount *list;
    size_t n;
    cr_assert(mkdtemp(folder));
    setenv("SAMPAN_RUN_DIR", folder, 1);
    snprintf(path, sizeof path, "%s/0123456789abcdef.json", folder);
    write_text(path,
               "{\"mountpoint\":\"/mnt/later\",\"uri\":\"file:///d\",\"socket\":\"/s\",\"pid\":1,"
               "\"start_ticks\":5,\"started\":7,\"later\":{\"a\":[1]}}");
    cr_assert_eq(control_mounts(&list, &n, NULL), 0);
    cr_assert_eq(n, 1);
    cr_assert_str_eq(list[0].mountpoint, "/mnt/later");
    control_mounts_free(list, n);
    write_text(path, "[{\"mountpoint\":\"/mnt/later\"}]");
    cr_assert_eq(control_mounts(&list, &n, NULL), 0);
    cr_assert_eq(n, 0);
    control_mounts_free(list, n);
    unlink(path);
    cr_assert_eq(rmdir(folder), 0);
}

Test(registry, a_mount_is_found_where_a_pod_sees_it)
{
    char folder[] = "/tmp/sampan-run-XXXXXX", pod[] = "/tmp/sampan-pod-XXXXXX", path[128];
    struct control_mount one;
    struct err err = {0};
    cr_assert(mkdtemp(folder) && mkdtemp(pod));
    setenv("SAMPAN_RUN_DIR", folder, 1);
    cr_assert_eq(control_register("/mnt/host", "file:///d", "/d/control.sock", 0, NULL), 0);
    cr_assert_eq(control_find(pod, &one, NULL), -1);
    snprintf(path, sizeof path, "%s/.sampan", pod);
    cr_assert_eq(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/.sampan/status.json", pod);
    write_text(path, "{\"mountpoint\":\"/mnt/host\",\"pid\":1}\n");
    cr_assert_eq(control_find(pod, &one, &err), 0, "%s", err.msg);
    cr_assert_str_eq(one.socket, "/d/control.sock");
    cr_assert(one.mounted);
    control_mount_release(&one);
    write_text(path, "{\"mountpoint\":\"/mnt/another\"}");
    cr_assert_eq(control_find(pod, &one, NULL), -1);
    write_text(path, "{");
    cr_assert_eq(control_find(pod, &one, NULL), -1);
    control_unregister("/mnt/host");
    unlink(path);
    snprintf(path, sizeof path, "%s/.sampan", pod);
    cr_assert(rmdir(path) == 0 && rmdir(pod) == 0 && rmdir(folder) == 0);
}

/* Pids of another PID namespace are not looked at: this process's own would be taken for theirs. */
Test(registry, from_a_pod_a_mount_lives_while_its_socket_takes_connections)
{
    char folder[] = "/tmp/sampan-run-XXXXXX", path[128], socket_path[128], text[512];
    struct control_mount one;
    int listener;
    cr_assert(mkdtemp(folder));
    setenv("SAMPAN_RUN_DIR", folder, 1);
    snprintf(path, sizeof path, "%s/0.json", folder);
    snprintf(socket_path, sizeof socket_path, "%s/control.sock", folder);
    snprintf(text, sizeof text,
             "{\"mountpoint\":\"/mnt/node\",\"uri\":\"file:///d\",\"socket\":\"%s\",\"pid\":%d,"
             "\"pids\":1,\"start_ticks\":1,\"keeper_pid\":1,\"keeper_ticks\":1,\"started\":1}",
             socket_path, getpid());
    write_text(path, text);
    cr_assert_eq(control_listen(socket_path, &listener, NULL), 0);
    cr_assert_eq(control_find("/mnt/node", &one, NULL), 0);
    cr_assert(one.alive && one.foreign && !one.recovering);
    cr_assert(one.pid == 0 && one.keeper_pid == 0);
    control_mount_release(&one);
    close(listener);
    cr_assert_eq(control_find("/mnt/node", &one, NULL), 0);
    cr_assert(!one.alive && one.foreign);
    control_mount_release(&one);
    cr_assert(unlink(socket_path) == 0 && unlink(path) == 0 && rmdir(folder) == 0);
}

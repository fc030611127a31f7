/* Launching: which pods count, who has which number, command lines, folders, what is refused. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"
#include "mem.h"

/* --- pods ------------------------------------------------------------------------------------- */

static int nodes_of(const char *text, struct launch_nodes *ret, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    cr_assert_eq(json_parse(&doc, "pods", text, strlen(text), err), 0, "%s", err->msg);
    struct json root = json_root(doc);
    return launch_nodes(ret, &root, err);
}

#define POD(phase, ip) "{\"metadata\":{},\"status\":{\"phase\":\"" phase "\",\"podIP\":\"" ip "\"}}"

Test(launch, addresses_are_sorted_as_texts)
{
    static const char text[] =
        "{\"items\":[" POD("Running", "10.0.0.2") "," POD("Running", "10.0.0.10") "," POD(
            "Running",
            "10.0.0.1") "," POD("Pending",
                                "10.0.0.4") "," POD("Succeeded",
                                                    "10.0.0.5") ",{\"metadata\":{"
                                                                "\"deletionTimestamp\":\"x\"},"
                                                                "\"status\":{\"phase\":\"Running\","
                                                                "\"podIP\":\"10.0.0.6\"}},{"
                                                                "\"metadata\":{}},{\"metadata\":{},"
                                                                "\"status\":{\"phase\":"
                                                                "\"Running\"}}]}";
    struct launch_nodes *n = xcalloc(1, sizeof *n);
    struct err err = {0};
    cr_assert_eq(nodes_of(text, n, &err), 0, "%s", err.msg);
    cr_assert_eq(n->n, 3);
    cr_expect_str_eq(n->ip[0], "10.0.0.1");
    cr_expect_str_eq(n->ip[1], "10.0.0.10");
    cr_expect_str_eq(n->ip[2], "10.0.0.2");
    cr_expect_eq(launch_number(n, "10.0.0.10"), 1);
    cr_expect_eq(launch_number(n, "10.0.0.4"), -1);
    cr_expect_eq(nodes_of("{}", n, &err), -1);
    cr_expect_eq(nodes_of("{\"items\":[]}", n, &err), 0);
    cr_expect_eq(n->n, 0);
    free(n);
}

/* --- options ---------------------------------------------------------------------------------- */

static const char *const *environment;

static const char *get(const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; environment[i]; i++)
        if (strncmp(environment[i], name, len) == 0 && environment[i][len] == '=')
            return environment[i] + len + 1;
    return NULL;
}

static const char *const article[] = {
    "JOB_NAME=paddle-cluster-job", "JOB_PATH=/jobpath",
    "JOB_NAMESPACE=default",       "TRAIN_CONFIG_DIR=recommendation",
    "CONF_PADDLE_NIC=eth0",        "CONF_PADDLE_PORT=7164",
    "CONF_PADDLE_PORTS_NUM=2",     "CONF_PADDLE_PORTS_NUM_SPARSE=2",
    "CONF_PADDLE_GRADIENT_NUM=3",  NULL};

static void expect_words(char **words, const char *want)
{
    cleanup_bytes struct bytes text = {0};
    for (char **w = words; *w; w++)
        bytes_addf(&text, "%s%s", w == words ? "" : " ", *w);
    cr_expect_str_eq(text.data, want);
    launch_words_free(words);
}

Test(launch, command_lines_of_the_article)
{
    char *argv[] = {(char *)"launch",          (char *)"--config=./trainer_config.py",
                    (char *)"--poll",          (char *)"1s",
                    (char *)"--trainer_count", (char *)"4",
                    (char *)"--num_passes=10", (char *)"--work=/tmp/w",
                    (char *)"--local=0",       NULL};
    struct launch_conf c;
    struct err err = {0};
    struct launch_nodes *n = xcalloc(1, sizeof *n);
    n->n = 3;
    for (int i = 0; i < 3; i++)
        snprintf(n->ip[i], sizeof n->ip[i], "10.0.0.%d", i + 1);
    environment = article;
    cr_assert_eq(launch_read(&c, 9, argv, get, &err), 0, "%s", err.msg);
    c.program = "sampan-train";
    cr_expect_str_eq(c.work, "/tmp/w");
    cr_expect_eq(c.poll_ns, 1000000000u);
    expect_words(launch_server_words(&c, "10.0.0.2"),
                 "sampan-train pserver --nics=eth0 --port=7164 --ports_num=2 "
                 "--comment=paddle_process_by_paddle --ports_num_for_sparse=2 "
                 "--num_gradient_servers=3 --address=10.0.0.2");
    expect_words(launch_trainer_words(&c, n, 1),
                 "sampan-train --nics=eth0 --port=7164 --ports_num=2 "
                 "--comment=paddle_process_by_paddle --pservers=10.0.0.1,10.0.0.2,10.0.0.3 "
                 "--ports_num_for_sparse=2 --config=./trainer_config.py --trainer_count 4 "
                 "--num_passes=10 --local=0 --trainer_id=1 "
                 "--save_dir=/jobpath/paddle-cluster-job/output");
    launch_release(&c);
    free(n);
}

Test(launch, it_asks_with_a_pause)
{
    char *argv[] = {(char *)"launch", (char *)"--poll=0", NULL};
    struct launch_conf c;
    struct err err = {0};
    environment = article;
    cr_expect_eq(launch_read(&c, 2, argv, get, &err), -1);
    cr_expect_str_eq(err.msg, "--poll: \"0\" is too short (at least 100ms)");
}

#define LONG_64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define LONG    LONG_64 LONG_64 LONG_64 LONG_64

Test(launch, environments_refused)
{
    static const struct {
        size_t without;
        const char *instead, *want;
    } refused[] = {
        {0, NULL, "launch: JOB_NAME is not set"},
        {0, "JOB_NAME=a/../b", "launch: JOB_NAME=a/../b: want a name of Kubernetes"},
        {0, "JOB_NAME=..", "launch: JOB_NAME=..: want a name of Kubernetes"},
        {0, "JOB_NAME=" LONG, "want a name of Kubernetes (at most 253 "},
        {2, "JOB_NAMESPACE=a?b", "launch: JOB_NAMESPACE=a?b: want a name of Kubernetes"},
        {1, "JOB_PATH=", "launch: JOB_PATH is not set"},
        {3, NULL, "launch: TRAIN_CONFIG_DIR is not set"},
        {8, NULL, "launch: CONF_PADDLE_GRADIENT_NUM is not set"},
        {8, "CONF_PADDLE_GRADIENT_NUM=0", "CONF_PADDLE_GRADIENT_NUM=0: want a number of 1 to"},
        {5, "CONF_PADDLE_PORT=65534", "the last port would be 65537, ports end at 65535"},
        {5, "CONF_PADDLE_PORT=7x", "CONF_PADDLE_PORT=7x: want a number of 1 to 65535"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const char *env[10];
        char *argv[] = {(char *)"launch", NULL};
        struct launch_conf c;
        struct err err = {0};
        size_t n = 0;
        for (size_t k = 0; article[k]; k++)
            if (k != refused[i].without)
                env[n++] = article[k];
        if (refused[i].instead)
            env[n++] = refused[i].instead;
        env[n] = NULL;
        environment = env;
        cr_expect_eq(launch_read(&c, 1, argv, get, &err), -1, "row %zu", i);
        cr_expect(strstr(err.msg, refused[i].want), "row %zu: %s", i, err.msg);
    }
}

/* --- reaching each other ---------------------------------------------------------------------- */

/* Of 127.0.0.N. Port 0: any, which is returned then. */
static int socket_at(int n, int *port, bool listens)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)*port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK + (uint32_t)n - 1)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listens)
        cr_assert(bind(fd, (struct sockaddr *)&at, len) == 0 && listen(fd, 8) == 0);
    while (!listens && connect(fd, (struct sockaddr *)&at, len))
        usleep(1000);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    if (listens)
        *port = ntohs(at.sin_port);
    return fd;
}

#define FROM_1_TO_0 "sampan-launch j 1 0\n"

static void say(int fd, const char *text)
{
    cr_assert_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* A pod that was busy for long finds those in its queue that have given up. */
Test(launch, who_has_given_up_was_not_heard, .timeout = 60)
{
    int port = 0, status = 0;
    char got[40] = "";
    cleanup_close int listener = socket_at(2, &port, true);
    struct launch_conf c = {.job = "j", .port = port, .reach_ns = 50000000000u};
    cleanup_free struct launch_nodes *n = xcalloc(1, sizeof *n);
    *n = (struct launch_nodes){.ip = {"127.0.0.1", "127.0.0.2"}, .n = 2};
    pid_t pod = fork();
    if (pod == 0) {
        atomic_int stop = 0;
        struct err err = {0};
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(launch_reach(&c, n, 0, &stop, &err) ? 1 : 0);
    }
    cleanup_close int asked = accept(listener, NULL, NULL);
    cr_assert_gt(recv(asked, got, sizeof got - 1, 0), 0);
    cr_expect_str_eq(got, "sampan-launch j 0 1\n");
    kill(pod, SIGSTOP);
    cr_assert(waitpid(pod, &status, WUNTRACED) == pod && WIFSTOPPED(status));
    say(asked, "ok\n");
    int given_up = socket_at(1, &port, false);
    say(given_up, FROM_1_TO_0);
    close(given_up);
    kill(pod, SIGCONT);
    cleanup_close int again = socket_at(1, &port, false);
    say(again, FROM_1_TO_0);
    cr_expect_eq(recv(again, got, 3, MSG_WAITALL), 3, "it has gone");
    cr_expect(waitpid(pod, &status, 0) == pod && status == 0);
}

/* --- folders ---------------------------------------------------------------------------------- */

static void put(const char *dir, const char *name, const char *text)
{
    cleanup_free char *path = xasprintf("%s/%s", dir, name);
    for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
    cleanup_file FILE *f = fopen(path, "we");
    cr_assert(f);
    fputs(text, f);
}

static bool holds(const char *dir, const char *name, const char *text)
{
    char got[100] = "";
    cleanup_free char *path = xasprintf("%s/%s", dir, name);
    cleanup_file FILE *f = fopen(path, "re");
    size_t n = f ? fread(got, 1, sizeof got - 1, f) : 0;
    return f && n == strlen(text) && strcmp(got, text) == 0;
}

static void remove_all(char *dir)
{
    char *const words[] = {(char *)"rm", (char *)"-rf", dir, NULL};
    pid_t pid = fork();
    if (pid == 0)
        _exit(execvp("rm", words));
    waitpid(pid, NULL, 0);
}

Test(launch, folders_are_copied_over_what_is_there)
{
    char dir[] = "/tmp/sampan-unit-XXXXXX";
    struct err err = {0};
    cr_assert(mkdtemp(dir));
    cleanup_free char *from = xasprintf("%s/from", dir), *to = xasprintf("%s/to", dir);
    atomic_int stop = SIGTERM;
    put(from, "train.py", "new");
    put(from, "lists/a", "a");
    cr_expect_eq(launch_copy(from, to, &stop, &err), -1);
    cr_expect_eq(err.class, ERR_CANCELLED, "%s", err.msg);
    cr_expect_neq(access(to, F_OK), 0, "it was copied all the same");
    stop = 0;
    put(to, "train.py", "longer than new");
    put(to, "other", "o");
    cr_expect_eq(launch_copy(from, to, &stop, &err), 2, "%s", err.msg);
    cr_expect(holds(to, "train.py", "new") && holds(to, "lists/a", "a") && holds(to, "other", "o"));
    /* The pod works in the job's own folder, by whatever name. */
    cleanup_free char *link = xasprintf("%s/link", dir);
    cr_assert_eq(symlink("from", link), 0);
    cr_expect_eq(launch_copy(from, from, &stop, &err), 2, "%s", err.msg);
    cr_expect_eq(launch_copy(from, link, &stop, &err), 2, "%s", err.msg);
    cr_expect(holds(from, "train.py", "new") && holds(from, "lists/a", "a"));
    remove_all(dir);
}

struct signaller {
    char *path;
    atomic_int stop;
};

/* As soon as some of the file is there. */
static void *stop_copying(void *arg)
{
    struct signaller *s = arg;
    struct stat st = {0};
    while (stat(s->path, &st) || st.st_size == 0)
        usleep(100);
    s->stop = SIGTERM;
    return NULL;
}

Test(launch, a_long_file_holds_up_no_signal)
{
    char dir[] = "/tmp/sampan-unit-XXXXXX";
    struct err err = {0};
    pthread_t thread;
    cr_assert(mkdtemp(dir));
    cleanup_free char *from = xasprintf("%s/from", dir), *to = xasprintf("%s/to", dir);
    cleanup_free char *long_one = xasprintf("%s/long", from);
    struct signaller s = {.path = xasprintf("%s/long", to)};
    put(from, "long", "");
    cr_assert_eq(truncate(long_one, 2ll << 30), 0);
    cr_assert_eq(pthread_create(&thread, NULL, stop_copying, &s), 0);
    cr_expect_eq(launch_copy(from, to, &s.stop, &err), -1);
    cr_expect_eq(err.class, ERR_CANCELLED, "%s", err.msg);
    cr_expect_neq(access(s.path, F_OK), 0, "half a file was left");
    pthread_join(thread, NULL);
    free(s.path);
    remove_all(dir);
}

Test(split, pictures_and_ratings)
{
    char dir[] = "/tmp/sampan-unit-XXXXXX";
    struct err err = {0};
    cr_assert(mkdtemp(dir));
    cleanup_free char *pictures = xasprintf("%s/p", dir), *ratings = xasprintf("%s/r", dir);
    cleanup_free char *a = xasprintf("%s/a", dir), *b = xasprintf("%s/b", dir);
    put(pictures, "cat/1.jpg", "c1");
    put(pictures, "cat/2.jpg", "c2");
    put(pictures, "cat/3.jpg", "c3");
    put(pictures, "dog/1.jpg", "d1");
    cr_expect_eq(split_set(pictures, a, 2, &err), 4, "%s", err.msg);
    cr_expect(holds(a, "data/0/cat/1.jpg", "c1") && holds(a, "data/0/cat/3.jpg", "c3") &&
              holds(a, "data/0/dog/1.jpg", "d1") && holds(a, "data/1/cat/2.jpg", "c2"));
    cleanup_free char *empty = xasprintf("%s/data/1/dog", a);
    cr_expect_eq(access(empty, F_OK), 0, "every part has every class");
    put(ratings, "users.dat", "u\n");
    put(ratings, "movies.dat", "m\n");
    put(ratings, "ratings.dat", "1\n\r\n2\n\n3"); /* empty lines are no ratings */
    cr_expect_eq(split_set(ratings, b, 2, &err), 3, "%s", err.msg);
    cr_expect(holds(b, "data/0/ratings.list", "1\n3") && holds(b, "data/1/ratings.list", "2\n") &&
              holds(b, "data/1/users.dat", "u\n"));
    cr_expect_eq(split_set(ratings, b, 2, &err), -1, "it is there");
    cr_expect_eq(split_set("/nowhere", b, 2, &err), -1);
    cr_expect_eq(err.class, ERR_NOT_FOUND);
    remove_all(dir);
}

static bool is_there(const char *dir, const char *name)
{
    cleanup_free char *path = xasprintf("%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

Test(split, errors_leave_no_part)
{
    char dir[] = "/tmp/sampan-unit-XXXXXX";
    struct err err = {0};
    cr_assert(mkdtemp(dir));
    cleanup_free char *set = xasprintf("%s/r", dir), *job = xasprintf("%s/job", dir);
    cleanup_free char *inside = xasprintf("%s/r/job/new", dir), *empty = xasprintf("%s/e", dir);
    put(set, "users.dat", "u\n");
    put(set, "ratings.dat", "1\n2\n3");
    cr_expect_eq(split_set(set, job, 2, &err), -1, "there is no movies.dat");
    cr_expect(strstr(err.msg, "movies.dat: No such file"), "%s", err.msg);
    cr_expect(!is_there(job, "data/0") && !is_there(job, "data/.dealing-0"));
    put(set, "movies.dat", "m\n");
    cr_expect_eq(split_set(set, inside, 2, &err), -1);
    cr_expect(strstr(err.msg, "want a folder outside of the set"), "%s", err.msg);
    cr_expect_eq(split_set(set, set, 2, &err), -1);
    cr_expect(!is_there(set, "job") && !is_there(set, "data"));
    mkdir(empty, 0755);
    cr_expect_eq(split_set(empty, job, 2, &err), -1);
    cr_expect_eq(err.class, ERR_NOT_FOUND, "%s", err.msg);
    cr_expect(!is_there(job, "data/0") && !is_there(job, "data/.dealing-0"));
    put(job, "data/.dealing-1/ratings.list", "of a call that was killed");
    cr_expect_eq(split_set(set, job, 2, &err), 3, "%s", err.msg);
    cr_expect(holds(job, "data/1/ratings.list", "2\n") && is_there(job, "output"));
    cr_expect(!is_there(job, "data/.dealing-1"));
    remove_all(dir);
}

Test(split, parts_are_named_all_or_none)
{
    char dir[] = "/tmp/sampan-unit-XXXXXX";
    struct err err = {0};
    cr_assert(mkdtemp(dir));
    cleanup_free char *set = xasprintf("%s/r", dir), *job = xasprintf("%s/job", dir),
                      *place = xasprintf("%s/data", job), *second = xasprintf("%s/1", place);
    put(set, "users.dat", "u\n");
    put(set, "movies.dat", "m\n");
    put(set, "ratings.dat", "1\n2\n3");
    cr_assert(!mkdir(job, 0755) && !mkdir(place, 0755));
    cr_assert_eq(symlink("nothing", second), 0);
    cr_expect_eq(split_set(set, job, 3, &err), -1, "no folder takes the place of a link");
    cr_expect(strstr(err.msg, "data/1: "), "%s", err.msg);
    for (int i = 0; i < 3; i++) {
        cleanup_free char *named = xasprintf("data/%d", i),
                          *dealt = xasprintf("data/.dealing-%d", i);
        cr_expect(!is_there(job, named) && !is_there(job, dealt), "part %d", i);
    }
    cr_assert_eq(unlink(second), 0);
    cr_expect_eq(split_set(set, job, 3, &err), 3, "%s", err.msg);
    remove_all(dir);
}

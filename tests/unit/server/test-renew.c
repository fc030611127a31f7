/* A certificate is renewed while there is no daemon: the renewal before got none, for want of
 * memory, say. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "log.h"
#include "mem.h"
#include "server-internal.h"

static void make_pair(const char *dir)
{
    cleanup_free char *words =
        xasprintf("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
                  "-days 2 -subj /CN=x -keyout %s/key -out %s/cert",
                  dir, dir);
    char *argv[32] = {0}, *rest = words;
    for (size_t i = 0; i < 31 && (argv[i] = strtok_r(rest, " ", &rest));)
        i++;
    posix_spawn_file_actions_t quiet;
    pid_t pid;
    int status;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", O_WRONLY, 0);
    if (posix_spawnp(&pid, argv[0], &quiet, NULL, argv, environ))
        cr_skip("no openssl");
    posix_spawn_file_actions_destroy(&quiet);
    cr_assert(waitpid(pid, &status, 0) == pid && status == 0);
}

static bool holds(const char *path, const char *text)
{
    char have[4096] = "";
    cleanup_file FILE *f = fopen(path, "re");
    return f && fread(have, 1, sizeof have - 1, f) > 0 && strstr(have, text);
}

Test(renew, a_server_without_a_daemon_gets_one, .timeout = 60)
{
    static const char *const names[] = {
        "key", "cert", "log", "state/jobs.db", "state/jobs.db-wal", "state/jobs.db-shm"};
    char dir[] = "/tmp/server-renew-XXXXXX";
    cr_assert(mkdtemp(dir));
    make_pair(dir);
    cleanup_free char *cert = xasprintf("%s/cert", dir), *key = xasprintf("%s/key", dir);
    cleanup_free char *state = xasprintf("%s/state", dir), *text = xasprintf("%s/log", dir);
    FILE *out = fopen(text, "we");
    cr_assert(out);
    struct log *log = log_new(out, LOG_INFO, LOG_TEXT, "test");
    const struct server_conf conf = {.listen = "127.0.0.1:0",
                                     .state = state,
                                     .no_auth = true,
                                     .tls_cert = cert,
                                     .tls_key = key,
                                     .partitions = 1,
                                     .version = "",
                                     .log = log};
    struct server *s;
    struct err err = {0};
    cr_assert(server_start(&s, &conf, &err) == 0, "%s", err.msg);
    {
        ACQUIRE(&s->cert_lock); /* nothing is renewed before the thread has it again */
        MHD_stop_daemon(s->daemon);
        s->daemon = NULL;
        make_pair(dir);
    }
    while (!holds(text, "certificate was renewed")) {
        fflush(out);
        usleep(1000);
        ACQUIRE(&s->cert_lock);
        cond_broadcast(&s->cert_stop); /* it looks at once */
    }
    server_stop(s);
    log_free(log);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        cleanup_free char *path = xasprintf("%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(state);
    rmdir(dir);
}

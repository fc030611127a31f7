/* Keys that were refused, and a look-up of others that fails: they are not sent once more. */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "engine-internal.h"
#include "mem.h"

static char profile[] = "/tmp/sampan-keys-XXXXXX";
static struct store *store;
static struct fetch *engine; /* its thread is the test's */

static void write_profile(const char *text)
{
    cleanup_file FILE *file = fopen(profile, "we");
    cr_assert_geq(fputs(text, file), 0);
}

static void begin(void)
{
    struct err err = {0};
    int fd = mkstemp(profile);
    cr_assert_geq(fd, 0);
    close(fd);
    write_profile("[default]\naws_access_key_id = OLD\naws_secret_access_key = secret\n");
    setenv("AWS_SHARED_CREDENTIALS_FILE", profile, 1);
    setenv("AWS_CONFIG_FILE", profile, 1);
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/", 1);
    const struct store_conf conf = {.endpoint = "http://127.0.0.1:1", .region = "us-east-1"};
    cr_assert_eq(store_open(&store, "s3://bucket/", &conf, &err), 0, "%s", err.msg);
    cr_assert_eq(store_creds_refresh(store, false, &err), 0, "%s", err.msg);
    write_profile("# nobody\n"); /* now the container's endpoint is asked, where nobody listens */
    engine = xcalloc(1, sizeof *engine);
    lock_init(&engine->lock, RANK_FETCH_QUEUE, "fetch-queue");
    engine->counts = &engine->own_counts;
    engine->conf.max_tries = 5;
    engine->conf.budget_ns = 600 * NS_PER_S;
    engine->wake_fd = -1;
    engine->now_ns = NS_PER_S;
    queues_init(&engine->http, 16);
    retry_budget_init(&engine->retry_budget, engine->now_ns);
    creds_new(engine);
}

static void finish(void)
{
    {
        ACQUIRE(&engine->lock);
        engine->stopping = true;
    }
    creds_stop(engine);
    creds_free(engine);
    lock_destroy(&engine->lock);
    free(engine);
    store_close(store);
    unlink(profile);
}

/* Refused with the keys of before. */
static struct job refused(void)
{
    return (struct job){.is_get = true,
                        .get = {.store = store, .key = "k", .key_len = 1},
                        .tries = 1,
                        .first_ns = 1,
                        .sent_ns = 1,
                        .force_creds = true};
}

/* The look-up for it has failed, and it waits for the next. */
static void look_up(struct job *j)
{
    while (engine->parked != j && !j->item.queued) {
        poll(NULL, 0, 1);
        creds_collect(engine);
    }
    if (j->item.queued)
        queues_remove(&engine->http, &j->item);
    engine->parked = NULL;
    engine->n_parked = 0;
}

Test(keys, that_were_refused_wait_for_others, .init = begin, .fini = finish)
{
    struct job first = refused(), second = refused();
    cr_assert(creds_hold(engine, &first));
    look_up(&first);
    cr_expect(first.why && first.why->class == ERR_TRANSIENT);
    cr_assert(creds_hold(engine, &first), "the one that looked would send them again");
    look_up(&first);
    cr_assert(creds_hold(engine, &second), "another would send them again");
    look_up(&second);
    free(first.why);
    free(second.why);
}

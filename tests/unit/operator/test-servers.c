/* What a set says of servers that do not run: how the last one ended, and its last words. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "mem.h"
#include "model.h"

#define NS   "ai"
#define NODE "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n1\"}}"
#define SET                                                                                     \
    "{\"apiVersion\":\"batch.paddlepaddle.org/v1alpha1\",\"kind\":\"SampleSet\",\"metadata\":{" \
    "\"name\":\"s\",\"namespace\":\"" NS "\"},\"spec\":{\"source\":{\"uri\":\"s3://b/p\"}}}"
#define INFO "2026-11-22T15:49:53.123Z info serve: listening on port 7716"
#define WARN "2026-11-22T15:49:53.124Z warn serve: the disk is full"

Test(operator_servers, says_how_one_ended_and_what_it_said_of_it)
{
    static const struct {
        const char *end, *want; /* behind "s-runtime-0: CrashLoopBackOff" */
    } rows[] = {
        {"\"exitCode\":2,\"reason\":\"Error\"", " (exit code 2)"},
        {"\"exitCode\":137,\"reason\":\"Error\",\"message\":\"" INFO "\"", " (killed by signal 9)"},
        {"\"exitCode\":137,\"reason\":\"OOMKilled\",\"message\":\"" INFO "\\n" INFO "\\n\"",
         " (OOMKilled: it needs more memory than its limit)"},
        {"\"exitCode\":0,\"signal\":15", " (killed by signal 15)"},
        {"\"exitCode\":139,\"message\":\"" WARN "\\n" INFO "\\n\"",
         " (killed by signal 11): " WARN},
        {"\"exitCode\":1,\"message\":\"{\\\"time\\\":\\\"2026-11-22T15:49:53.123Z\\\","
         "\\\"level\\\":"
         "\\\"info\\\",\\\"msg\\\":\\\"x\\\"}\\nsampan serve: no such disk  \\n\\n\"",
         " (exit code 1): sampan serve: no such disk"},
        {"\"exitCode\":1,\"message\":\"{\\\"time\\\":\\\"2026-11-22T15:49:53.123Z\\\","
         "\\\"level\\\":"
         "\\\"debug\\\",\\\"msg\\\":\\\"x\\\"}\"",
         " (exit code 1)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char patch[1024], event[1024];
        struct model *m = model_new("[" SET "," NODE "]");
        model_settle(m, 20);
        cr_assert_str_eq(model_at(m, "SampleSet", NS, "s", "status|phase"), "Ready");
        snprintf(patch, sizeof patch,
                 "{\"status\":{\"conditions\":[],\"containerStatuses\":[{\"state\":{\"waiting\":{"
                 "\"reason\":\"CrashLoopBackOff\"}},\"lastState\":{\"terminated\":{%s}}}]}}",
                 rows[i].end);
        model_patch(m, "Pod", NS, "s-runtime-0", patch);
        model_settle(m, 2);
        snprintf(event, sizeof event, "Warning ServerFails: s-runtime-0: CrashLoopBackOff%s",
                 rows[i].want);
        cr_expect_eq(model_event(m, event), 1, "%zu: %s", i, m->log.data);
        size_t len = strlen(event);
        snprintf(event + len, sizeof event - len, ":");
        cr_expect_eq(model_event(m, event), 0, "%zu: it says more than it should", i);
        model_free(m);
    }
}

/* A quota, or the level of the namespace: Kubernetes tells it of the StatefulSet alone. */
Test(operator_servers, one_that_has_no_pod_leads_to_who_knows_why)
{
    struct model *m = model_new("[" SET "," NODE "]");
    m->no_pods = true;
    model_settle(m, 3);
    cleanup_free char *all = model_text(m);
    cr_expect(strstr(all, "0 of 1 servers are ready (kubectl describe statefulset s-runtime tells "
                          "what one waits for)"),
              "%s", all);
    model_free(m);
}

/* The set is looked at again and again, and told about once. */
Test(operator_servers, one_that_does_not_answer_is_told_of_once)
{
    struct model *m = model_new("[" SET "," NODE "]");
    const char *said;
    model_settle(m, 20);
    cr_assert_str_eq(model_at(m, "SampleSet", NS, "s", "status|phase"), "Ready", "%s", m->log.data);
    m->away = true;
    model_patch(m, "SampleSet", NS, "s", "{\"metadata\":{\"annotations\":{\"look\":\"now\"}}}");
    model_settle(m, 2);
    said = model_at(m, "SampleSet", NS, "s", "status|cacheStatus|errorMassage");
    cr_assert(strstr(said, "server 0 does not answer: "), "%s", said);
    int64_t actions = m->actions;
    unsigned asked = m->unanswered;
    model_settle(m, 9);
    cr_expect_geq(m->unanswered, asked + 5);
    cr_expect_eq(m->actions, actions, "%s", m->log.data);
    m->away = false;
    model_settle(m, 9);
    cr_expect_str_eq(model_at(m, "SampleSet", NS, "s", "status|cacheStatus|errorMassage"), "");
    model_free(m);
}

/* A node that has been given another share still has what it kept of the one before. */
Test(operator_servers, a_partition_counts_what_is_there_of_its_own)
{
    struct model *m = model_new("[" SET "," NODE "]");
    m->kept = 300;
    m->cached = 900000;
    model_settle(m, 20);
    cr_expect_str_eq(model_at(m, "SampleSet", NS, "s", "status|partitions|0|cachedSamples"), "300");
    cr_expect_str_eq(model_at(m, "SampleSet", NS, "s", "status|partitions|0|bytes"), "500000");
    cr_expect_str_eq(model_at(m, "SampleSet", NS, "s", "status|partitions|0|cachedBytes"),
                     "300000");
    model_free(m);
}

/* The operator's key is another one: a life of it that lost the Secret made anew. */
Test(operator_servers, those_that_refuse_its_token_are_given_the_new_one)
{
    struct model *m = model_new("[" SET "," NODE "]");
    model_settle(m, 20);
    cr_assert_str_eq(model_at(m, "SampleSet", NS, "s", "status|phase"), "Ready", "%s", m->log.data);
    model_patch(m, "Secret", NS, "s-runtime-token",
                "{\"metadata\":{\"annotations\":{\"sampan.io/made-of\":\"another\"}},"
                "\"data\":{\"token\":\"another\"}}");
    model_patch(m, "SampleSet", NS, "s", "{\"metadata\":{\"annotations\":{\"look\":\"now\"}}}");
    m->refuses = true;
    model_settle(m, 3);
    cr_expect_str_neq(model_at(m, "Secret", NS, "s-runtime-token", "data|token"), "another");
    model_free(m);
}

/* What the set says is put back; what others add beside that, as `kubectl rollout restart` does,
 * stays. Then nothing is left to be done. */
Test(operator_servers, what_somebody_edits_is_put_back)
{
    static const struct {
        const char *kind, *name, *edit, *path, *want;
    } rows[] = {
        {"StatefulSet", "s-runtime", "{\"spec\":{\"replicas\":0}}", "spec|replicas", "1"},
        {"StatefulSet", "s-runtime", "{\"spec\":{\"replicas\":3}}", "spec|replicas", "1"},
        {"StatefulSet", "s-runtime", "{\"spec\":{\"template\":{\"spec\":{\"containers\":[]}}}}",
         "spec|template|spec|containers|0|name", "runtime"},
        {"StatefulSet", "s-runtime",
         "{\"spec\":{\"template\":{\"metadata\":{\"annotations\":{\"restarted\":\"now\"}}}}}",
         "spec|template|metadata|annotations|restarted", "now"},
        {"Service", "s-runtime-service", "{\"spec\":{\"selector\":{\"sampan.io/runtime\":\"x\"}}}",
         "spec|selector|sampan.io/runtime", "s-runtime"},
        {"Service", "s-runtime-service", "{\"spec\":{\"ports\":null}}", "spec|ports|0|port",
         "7716"},
    };
    struct model *m = model_new("[" SET "," NODE "]");
    model_settle(m, 20);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            model_patch(m, rows[i].kind, NS, rows[i].name, rows[i].edit);
            model_settle(m, 20);
            cr_expect_str_eq(model_at(m, rows[i].kind, NS, rows[i].name, rows[i].path),
                             rows[i].want, "%d, %zu: %s", round, i, m->log.data);
            int64_t actions = m->actions;
            model_settle(m, 3);
            cr_expect_eq(m->actions, actions, "%d, %zu: %s", round, i, m->log.data);
        }
    cr_expect_str_eq(model_at(m, "SampleSet", NS, "s", "status|phase"), "Ready");
    model_free(m);
}

/* Servers have then taken up what the operator does not know. */
Test(operator_servers, their_token_is_put_back)
{
    struct model *m = model_new("[" SET "," NODE "]");
    model_settle(m, 20);
    cleanup_free char *token = xstrdup(model_at(m, "Secret", NS, "s-runtime-token", "data|token"));
    cr_assert_neq(*token, '\0');
    model_patch(m, "Secret", NS, "s-runtime-token", "{\"data\":{\"token\":\"YW5vdGhlcg==\"}}");
    model_patch(m, "SampleSet", NS, "s", "{\"metadata\":{\"annotations\":{\"look\":\"now\"}}}");
    m->refuses = true;
    model_settle(m, 3);
    cr_expect_str_eq(model_at(m, "Secret", NS, "s-runtime-token", "data|token"), token);
    model_free(m);
}

/* An evicted pod keeps its node until it is deleted, and the scheduler does not count it any more.
 */
Test(operator_servers, two_on_one_node_do_not_fight_for_its_label)
{
    static const char *const label = "metadata|labels|sampan.io/" NS ".s";
    struct model *m = model_new("[" SET "," NODE ",{\"apiVersion\":\"v1\",\"kind\":\"Node\","
                                "\"metadata\":{\"name\":\"n2\"}}]");
    model_patch(m, "SampleSet", NS, "s", "{\"spec\":{\"partitions\":2}}");
    model_settle(m, 20);
    cr_assert_str_eq(model_at(m, "Node", NULL, "n1", label), "s-runtime-0");
    model_patch(m, "Pod", NS, "s-runtime-1", "{\"spec\":{\"nodeName\":\"n1\"}}");
    model_settle(m, 20);
    cr_assert_str_eq(model_at(m, "Node", NULL, "n1", label), "s-runtime-0");
    model_patch(m, "Pod", NS, "s-runtime-0", "{\"status\":{\"conditions\":[]}}");
    model_settle(m, 20);
    cr_assert_str_eq(model_at(m, "Node", NULL, "n1", label), "s-runtime-1");
    model_free(m);
}

/* A job would wait for a claim that is going, and the set for the job. */
Test(operator_servers, a_set_whose_servers_go_is_not_held_up_any_more)
{
    struct model *m = model_new("[" SET "," NODE "]");
    model_settle(m, 20);
    model_delete(m, "SampleSet", NS, "s");
    while (strcmp(model_condition(m, "SampleSet", NS, "s", "Deletion"), "True Deleting") != 0)
        cr_assert(model_pass(m), "%s", m->log.data);
    cr_expect_str_eq(model_at(m, "SampleSet", NS, "s", "status|phase"), "");
    model_add(m,
              "{\"apiVersion\":\"batch.paddlepaddle.org/v1\",\"kind\":\"PaddleJob\",\"metadata\":{"
              "\"name\":\"late\",\"namespace\":\"" NS
              "\"},\"spec\":{\"sampleSetRef\":{\"name\":\"s\"}},"
              "\"status\":{\"phase\":\"Pending\"}}");
    model_settle(m, 20);
    cr_assert(!model_get(m, "SampleSet", NS, "s"), "%s", m->log.data);
    model_free(m);
}

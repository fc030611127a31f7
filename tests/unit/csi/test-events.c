/* The object that is posted for a pod. Posting itself: tests/func/97-csi-events. */
#include <criterion/criterion.h>
#include <string.h>

#include "events.h"

Test(events, one_object_for_one_thing)
{
    static char name[] = "trainer-0", space[] = "ml", uid[] = "0c7f", other_uid[] = "0c80";
    const struct events_conf conf = {.component = "csi.sampan.io", .node = "n1"};
    struct pod_ref pod = {name, space, uid};
    static const char want[] =
        "{\"apiVersion\":\"v1\",\"kind\":\"Event\",\"metadata\":{\"name\":\"trainer-0.HASH\","
        "\"namespace\":\"ml\"},\"involvedObject\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\","
        "\"name\":\"trainer-0\",\"namespace\":\"ml\",\"uid\":\"0c7f\"},\"type\":\"Warning\","
        "\"reason\":\"RestartNeeded\",\"message\":\"it \\\"is\\\" so\",\"source\":{\"component\":"
        "\"csi.sampan.io\",\"host\":\"n1\"},\"reportingComponent\":\"csi.sampan.io\","
        "\"reportingInstance\":\"n1\",\"firstTimestamp\":\"1970-01-02T00:00:01Z\","
        "\"lastTimestamp\":\"1970-01-02T00:00:01Z\",\"count\":1}";
    struct bytes text = {0}, again = {0}, other = {0};
    events_object(&conf, &pod, "v\n7", "RestartNeeded", "it \"is\" so", 86401, &text);
    events_object(&conf, &pod, "v\n7", "RestartNeeded", "it \"is\" so", 86401, &again);
    cr_assert_str_eq(text.data, again.data);
    pod.uid = other_uid;
    events_object(&conf, &pod, "v\n7", "RestartNeeded", "it \"is\" so", 86401, &other);
    char *hash = strstr(text.data, "trainer-0.") + strlen("trainer-0.");
    cr_assert(strspn(hash, "0123456789abcdef") == 16);
    cr_assert(strncmp(hash, strstr(other.data, "trainer-0.") + strlen("trainer-0."), 16) != 0,
              "another pod of that name");
    memcpy(hash, "HASH", 4);
    memmove(hash + 4, hash + 16, strlen(hash + 16) + 1);
    cr_assert_str_eq(text.data, want);
    bytes_release(&text);
    bytes_release(&again);
    bytes_release(&other);
}

Test(events, nowhere_to_tell_them)
{
    struct events *e = (struct events *)&e;
    struct err err = {0};
    const struct events_conf conf = {.account = "/nonexistent"};
    cr_assert(events_start(&e, &conf, &err) == 0 && !e);
    uint64_t told = 1, failed = 1;
    events_warn(NULL, NULL, "", "", "");
    events_counts(NULL, &told, &failed);
    cr_assert(told == 0 && failed == 0);
    events_stop(NULL);
}

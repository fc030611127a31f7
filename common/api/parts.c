#include "parts.h"

static const struct api_field condition_fields[] = {
    API_FIELD("type", API_STRING, api_condition, type, "What it is about.", API_REQUIRED, .min = 1,
              .max = 316),
    API_FIELD("status", API_ENUM, api_condition, status, "Whether it holds.", API_REQUIRED,
              .choices = "True|False|Unknown"),
    API_FIELD("observedGeneration", API_INT, api_condition, generation,
              "The metadata.generation that this was said of.", .max = INT64_MAX),
    API_FIELD("lastTransitionTime", API_TIME, api_condition, since, "When the status changed last.",
              API_REQUIRED),
    API_FIELD("reason", API_STRING, api_condition, reason, "Why, in one word for programs.",
              API_REQUIRED, .max = 1024),
    API_FIELD("message", API_STRING, api_condition, message, "Why, and what to do, for people.",
              API_REQUIRED, .max = 32768),
};
const struct api_object api_condition = {.size = sizeof(struct api_condition),
                                         .doc = "One aspect of the state.",
                                         .fields = condition_fields,
                                         .n_fields = API_COUNT(condition_fields)};

static const struct api_field ref_fields[] = {
    API_FIELD("name", API_STRING, api_ref, name, "Name of the object.", API_REQUIRED, .min = 1,
              .max = 253),
    API_FIELD("namespace", API_STRING, api_ref, namespace,
              "Its namespace; without it, that of this object.", .max = 63),
};
const struct api_object api_ref = {.size = sizeof(struct api_ref),
                                   .doc = "Another object.",
                                   .fields = ref_fields,
                                   .n_fields = API_COUNT(ref_fields)};

static const struct api_field set_ref_fields[] = {
    API_FIELD("name", API_STRING, api_set_ref, name, "Name of the SampleSet.", API_REQUIRED,
              .min = 1, .max = 253),
    API_FIELD("namespace", API_STRING, api_set_ref, namespace,
              "Its namespace. Without it: the job's own, then the only set of that name that is "
              "shared to "
              "the job's.",
              .max = 63),
    API_FIELD("mountPath", API_STRING, api_set_ref, mount_path,
              "Where the samples are in the first container of each pod.", .max = 4096,
              .pattern = "^/"),
};
const struct api_object api_set_ref = {.size = sizeof(struct api_set_ref),
                                       .doc = "A SampleSet.",
                                       .fields = set_ref_fields,
                                       .n_fields = API_COUNT(set_ref_fields)};

static const struct api_field schedule_fields[] = {
    API_FIELD("cron", API_CRON, api_schedule, cron,
              "When: MINUTE HOUR DAY MONTH WEEKDAY, or @hourly, @daily, @weekly, @monthly.",
              API_REQUIRED),
    API_FIELD("timeZone", API_STRING, api_schedule, zone,
              "The clock that is meant: a name such as Asia/Shanghai.", .dflt = "UTC", .max = 64),
    API_FIELD("suspend", API_BOOL, api_schedule, suspend, "No further runs while true.",
              .dflt = "false"),
    API_FIELD("concurrencyPolicy", API_ENUM, api_schedule, concurrency,
              "What to do when a run is due while the last one is under way.", .dflt = "Forbid",
              .choices = "Allow|Forbid|Replace"),
    API_FIELD("successfulRunsHistoryLimit", API_INT, api_schedule, kept_done,
              "How many runs that succeeded are remembered.", .dflt = "3", .max = 100),
    API_FIELD("failedRunsHistoryLimit", API_INT, api_schedule, kept_failed,
              "How many runs that failed are remembered.", .dflt = "1", .max = 100),
};
const struct api_object api_schedule = {.size = sizeof(struct api_schedule),
                                        .doc = "Runs again by the clock.",
                                        .fields = schedule_fields,
                                        .n_fields = API_COUNT(schedule_fields)};

/* An object that is what we stored, though nobody heard so, is no change by another writer. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "mem.h"
#include "stage-testing.h"

Test(unheard, what_we_hold_more_of_is_not_another_writers)
{
    struct bench b;
    uint64_t fh[2];
    char *text = NULL, names[64];
    size_t len;
    FILE *out = open_memstream(&text, &len);
    struct log *log = log_new(out, LOG_WARN, LOG_TEXT, NULL);
    bench_start(&b, true);
    b.conf.log = log;
    b.conf.refresh_ns = STAGE_EACH_LOOK;
    bench_open(&b, true);
    t_create(&b, STAGE_ROOT, "log", &fh[0]);
    t_write(&b, fh[0], 0, "line-1,line-2,");
    t_create(&b, STAGE_ROOT, "table", &fh[1]);
    t_write(&b, fh[1], 0, "line-1,line-2,");
    ask_number(&b, "/_put/out/log?text=line-1,");
    names_in(&b, STAGE_ROOT, names, sizeof names); /* lists it */
    fflush(out);
    cr_expect_eq(len, 0, "%s", text);
    ask_number(&b, "/_put/out/table?text=line-2,");
    names_in(&b, STAGE_ROOT, names, sizeof names);
    fflush(out);
    cr_expect(strstr(text, "ours will replace it") && strstr(text, "path=table"), "%s", text);
    for (int i = 0; i < 2; i++)
        t_close(&b, fh[i]);
    expect_stored(&b, "log", "line-1,line-2,");
    expect_stored(&b, "table", "line-1,line-2,");
    bench_stop(&b);
    log_free(log);
    fclose(out);
    free(text);
}

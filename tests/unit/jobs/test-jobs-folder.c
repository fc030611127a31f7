/* The folder of jobs belongs to one server. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drop-folder.h"
#include "jobs.h"
#include "mem.h"

Test(jobs, a_folder_is_for_one_server_at_a_time)
{
    char dir[] = "/tmp/jobs-folder-XXXXXX";
    cr_assert(mkdtemp(dir));
    const struct jobs_conf conf = {.dir = dir};
    struct jobs *first, *second;
    struct err err = {0};
    cr_assert(jobs_open(&first, &conf, &err) == 0, "%s", err.msg);
    cr_assert(jobs_open(&second, &conf, &err) != 0);
    cr_assert(err.class == ERR_LIMIT && strstr(err.msg, "another server"), "%s", err.msg);
    jobs_close(first);
    cr_assert(jobs_open(&second, &conf, &err) == 0, "%s", err.msg);
    jobs_close(second);
    jobs_drop_folder(dir);
}

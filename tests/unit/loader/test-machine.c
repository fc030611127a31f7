/* The machine that a loader finds: its cores, folders that fail or change while they are read. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "loader.h"
#include "opened.h"
#include "pictures.h"

/* In the place of the library's: as on a machine of so many cores. */
static int pretended_cores;

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *ret)
{
    if (!pretended_cores)
        return syscall(SYS_sched_getaffinity, pid, size, ret) < 0 ? -1 : 0;
    CPU_ZERO(ret);
    for (int i = 0; i < pretended_cores; i++)
        CPU_SET(i, ret);
    return 0;
}

Test(machine, a_machine_has_more_cores_than_threads_may_be)
{
    char *dir = picture_set();
    struct loader_options o = picture_options(dir);
    struct loader_info info;
    o.threads = 0;
    pretended_cores = 384;
    struct loader *l = open_loader(&o);
    loader_info(l, &info);
    cr_expect_eq(info.threads, 256);
    loader_close(l);
    drop_folder(dir);
}

/* In the place of the library's: it fails at the n-th name; a name is not there yet, once. */
static int fails_in;
static const char *late;

struct dirent *readdir(DIR *d)
{
    struct dirent *(*real)(DIR *); /* not kept: several threads come here */
    *(void **)&real = dlsym(RTLD_NEXT, "readdir");
    if (fails_in > 0 && --fails_in == 0) {
        errno = EIO;
        return NULL;
    }
    struct dirent *e = real(d);
    if (!e || !late || strcmp(e->d_name, late) != 0)
        return e;
    late = NULL;
    return real(d);
}

/* What cannot be read of a folder is not its end: the set would have lost samples unnoticed. */
Test(machine, a_folder_that_cannot_be_read_to_its_end)
{
    char *dir = picture_set();
    struct loader_options o = picture_options(dir);
    int failed = 0;
    o.direct = LOADER_DIRECT_OFF; /* which reads folders of its own */
    for (int at = 1;; at++) {
        struct loader *l = NULL;
        struct err e = {0};
        fails_in = at;
        int rc = loader_open(&l, &o, &e);
        if (rc == 0)
            loader_close(l);
        if (fails_in > 0) /* so many names are not there */
            break;
        cr_expect(rc == -1 && strstr(e.msg, "Input/output error"), "name %d: %s", at, e.msg);
        failed++;
    }
    fails_in = 0;
    cr_expect(failed > SAMPLES, "%d", failed);
    drop_folder(dir);
}

/* Its samples would have no label. */
Test(machine, a_class_that_comes_while_the_folder_is_listed)
{
    char *dir = picture_set();
    struct loader_options o = picture_options(dir);
    struct loader *l;
    struct err e = {0};
    late = "dog";
    cr_assert_eq(loader_open(&l, &o, &e), -1);
    cr_expect(e.class == ERR_STALE && strstr(e.msg, "the class of dog/019.jpg has come meanwhile"),
              "%s", e.msg);
    drop_folder(dir);
}

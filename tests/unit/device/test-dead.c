/* Whether a mount's server is gone, asked while it goes. Needs root and /dev/fuse. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"

#define STATFS 17
#define INIT   26

/* As much of the kernel's protocol as this takes (7.31). */
struct request {
    uint32_t len, opcode;
    uint64_t unique;
    char rest[1 << 20];
};

struct init_reply {
    uint32_t len;
    int32_t error;
    uint64_t unique;
    uint32_t major, minor, max_readahead, flags;
    uint16_t max_background, congestion_threshold;
    uint32_t max_write, rest[10];
};

static void answer_init(int dev, const struct request *r)
{
    const struct init_reply reply = {
        .len = sizeof reply, .unique = r->unique, .major = 7, .minor = 31, .max_write = 1 << 16};
    if (write(dev, &reply, sizeof reply) != (ssize_t)sizeof reply)
        _exit(1);
}

/* Ends with the question in hand, as the last process that held the device. */
static void serve_until_asked(int dev)
{
    static struct request r;
    while (read(dev, &r, sizeof r) > 0) {
        if (r.opcode == INIT)
            answer_init(dev, &r);
        else if (r.opcode == STATFS)
            _exit(0);
    }
    _exit(1);
}

Test(dead, a_server_that_goes_while_it_is_asked_is_gone)
{
    char dir[] = "/tmp/fuse-test-XXXXXX";
    const struct mount_conf conf = {.source = "file:///nothing", .mountpoint = dir};
    struct err err = {0};
    int dev, status;
    if (geteuid() != 0 || access("/dev/fuse", R_OK | W_OK) != 0)
        return;
    cr_assert_not_null(mkdtemp(dir));
    cr_assert_eq(mount_fuse(&conf, &dev, &err), 0, "%s", err.msg);
    pid_t server = fork();
    if (server == 0)
        serve_until_asked(dev);
    close(dev);
    cr_expect(mount_is_dead(dir));
    cr_expect_eq(waitpid(server, &status, 0), server);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the server was not asked");
    cr_expect_eq(umount2(dir, MNT_DETACH), 0);
    rmdir(dir);
}

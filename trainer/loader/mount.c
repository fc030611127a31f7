/* Telling a mounted set what is read: ioctls on its root, so that it works inside a container. */
#include <errno.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "loader-internal.h"
#include "sampan-ioctl.h"

static int refused(const char *what, struct err *err)
{
    if (errno == ENOTTY)
        return err_set(err, ERR_USAGE, "the folder is no mounted set");
    return err_sys(err, errno, "tell the mount its %s", what);
}

/* All ranks of a node say the same: the order of its first one. */
int mount_tell_sampler(int dir, const struct order_spec *s, struct err *err)
{
    struct order_spec node = *s;
    struct sampan_ioc_sampler told = {0};
    char text[ORDER_TOKEN_TEXT];
    uint32_t each = s->ranks_per_node ? s->ranks_per_node : 1;
    node.rank = s->rank / each * each;
    order_spec_print(&node, text, sizeof text);
    if ((size_t)snprintf(told.spec, sizeof told.spec, "%s", text) >= sizeof told.spec)
        return err_set(err, ERR_LIMIT, "the sampler is too long a text for the mount");
    return ioctl(dir, SAMPAN_IOC_SET_SAMPLER, &told) ? refused("sampler", err) : 0;
}

int mount_tell_epoch(int dir, uint64_t epoch, struct err *err)
{
    __u64 told = epoch;
    return ioctl(dir, SAMPAN_IOC_SET_EPOCH, &told) ? refused("epoch", err) : 0;
}

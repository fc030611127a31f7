/*
 * Requests to a mounted sample set through its root folder, for programs that see nothing but the
 * mount (a container): open the root (read-only is enough) and ioctl() it. docs/formats/ioctl.md
 * explains them. This header is self-contained and may be copied.
 */
#ifndef SAMPAN_IOCTL_H
#define SAMPAN_IOCTL_H

#include <linux/types.h>
#include <sys/ioctl.h>

#define SAMPAN_IOC_MAGIC 0xB5

/* The text of `status` as JSON: `len` bytes without a NUL. E2BIG: too long; read
 * .sampan/status.json. */
struct sampan_ioc_status {
    __u32 len;
    char json[16380 - 4];
};

/* A sampler SPEC, NUL-terminated; "" turns the known order off. E2BIG: longer than this. */
#define SAMPAN_IOC_SPEC_MOST 951
struct sampan_ioc_sampler {
    char spec[1024];
};

#define SAMPAN_IOC_STATUS      _IOR(SAMPAN_IOC_MAGIC, 1, struct sampan_ioc_status)
#define SAMPAN_IOC_SET_EPOCH   _IOW(SAMPAN_IOC_MAGIC, 2, __u64)
#define SAMPAN_IOC_SET_SAMPLER _IOW(SAMPAN_IOC_MAGIC, 3, struct sampan_ioc_sampler)
/* Nothing is pushed for two seconds, so that the mount is not busy through its own server (umount).
 */
#define SAMPAN_IOC_HUSH _IO(SAMPAN_IOC_MAGIC, 4)

#endif

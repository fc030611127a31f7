#include <criterion/criterion.h>

#include "sampan-ioctl.h"

/* The numbers are written down in docs/formats/ioctl.md and in other people's programs. */
Test(ioctl, numbers_never_change)
{
    cr_assert_eq(SAMPAN_IOC_STATUS, 0xbffcb501u);
    cr_assert_eq(SAMPAN_IOC_SET_EPOCH, 0x4008b502u);
    cr_assert_eq(SAMPAN_IOC_SET_SAMPLER, 0x4400b503u);
    cr_assert_eq(SAMPAN_IOC_HUSH, 0xb504u);
    cr_assert_eq(sizeof(struct sampan_ioc_status), 16380);
}

/* Included before every file: functions whose use has ended badly too often are compile errors. */
#ifndef SAMPAN_BASE_BANNED_H
#define SAMPAN_BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Hardened headers make macros of some; a macro cannot be poisoned. */
#undef strcpy
#undef strcat
#undef strncpy
#undef strncat
#undef sprintf
#undef vsprintf
#undef gets
#pragma GCC poison strcpy strcat strncpy strncat sprintf vsprintf strtok gets system popen tmpnam \
    mktemp
#pragma GCC poison gmtime localtime ctime asctime

#endif

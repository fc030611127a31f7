/* Included before every file: functions whose use has ended badly too often are compile errors. */
#ifndef SAMPAN_BASE_BANNED_H
#define SAMPAN_BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#pragma GCC poison strcpy strcat strncpy strncat sprintf vsprintf strtok gets system popen tmpnam \
    mktemp
#pragma GCC poison gmtime localtime ctime asctime

#endif

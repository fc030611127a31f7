/*
 * Where the parts of an upload begin. A part's length depends on its number alone, so that parts
 * can go up while nobody knows how long the file will be: a thousand of 8 MiB, then a thousand of
 * twice that, and so on: 10 000 parts hold more than the 5 TiB that an object may have.
 */
#include "content-internal.h"

#define PART_FIRST (8ull << 20)
#define PART_GROUP 1000u

uint64_t part_length(unsigned part)
{
    return PART_FIRST << ((part - 1) / PART_GROUP);
}

uint64_t part_offset(unsigned part)
{
    unsigned group = (part - 1) / PART_GROUP, in_group = (part - 1) % PART_GROUP;
    return PART_FIRST * PART_GROUP * ((1ull << group) - 1) + in_group * (PART_FIRST << group);
}

unsigned part_at(uint64_t off)
{
    unsigned group = 0;
    while (off >= PART_FIRST * PART_GROUP * ((2ull << group) - 1))
        group++;
    uint64_t rest = off - PART_FIRST * PART_GROUP * ((1ull << group) - 1);
    return group * PART_GROUP + (unsigned)(rest / (PART_FIRST << group)) + 1;
}

/*
 * What a unit takes in a pack besides its bytes (docs/formats/pack.md): the cache writes it, a plan
 * counts it.
 */
#ifndef SAMPAN_PACK_SIZES_H
#define SAMPAN_PACK_SIZES_H

#define RECORD_HEAD_BYTES    32u
#define RECORD_ALIGN         64u
#define CHUNK_BYTES          (128u << 10) /* of a unit's bytes, each with a head */
#define CHUNK_HEAD_BYTES     8u
#define JOURNAL_RECORD_BYTES 48u
#define PAGE_BYTES           4096u

/* Stored bytes from which a unit is a large one: they begin with a page, it is asked for without
 * what is around it, and read and written past the page cache (cache/direct.c). */
#define LARGE_BYTES (512u << 10)

#endif

/* What the kernel offers, what is hidden for tests, and the mode that follows with its reason. */
#include <stdio.h>
#include <string.h>

#include "frontend-internal.h"

static const struct offer_row {
    const char *name;
    unsigned offer;
    uint32_t flags, flags2; /* of the INIT request; both 0: not offered by flag */
} offer_rows[] = {
    {"no_open", OFFER_NO_OPEN, WIRE_NO_OPEN, 0},
    {"no_opendir", OFFER_NO_OPENDIR, WIRE_NO_OPENDIR, 0},
    {"readdirplus", OFFER_READDIRPLUS, WIRE_DO_READDIRPLUS | WIRE_READDIRPLUS_AUTO, 0},
    {"async_read", OFFER_ASYNC_READ, WIRE_ASYNC_READ, 0},
    {"passthrough", OFFER_PASSTHROUGH, 0, WIRE2_PASSTHROUGH},
    {"notify", OFFER_NOTIFY, 0, 0},
    {"ioctl", OFFER_IOCTL, 0, 0},
    {"max_pages", OFFER_MAX_PAGES, WIRE_MAX_PAGES, 0},
    {"resend", OFFER_RESEND, 0, WIRE2_HAS_RESEND},
};
#define N_OFFERS (sizeof(offer_rows) / sizeof(offer_rows[0]))

static const struct offer_row *row_of(const char *name, size_t len)
{
    for (size_t i = 0; i < N_OFFERS; i++)
        if (strlen(offer_rows[i].name) == len && !memcmp(offer_rows[i].name, name, len))
            return &offer_rows[i];
    return NULL;
}

int probe_mask_parse(const char *text, unsigned *ret_hidden, struct err *err)
{
    unsigned hidden = 0;

    for (const char *at = text ? text : ""; *at;) {
        size_t len = strcspn(at, ",");
        const struct offer_row *row = row_of(at, len);

        if (!row && len)
            return err_set(
                err, ERR_USAGE,
                "SAMPAN_FUSE_MASK: unknown name '%.*s' (known: no_open, no_opendir, "
                "readdirplus, async_read, passthrough, notify, ioctl, max_pages, resend)",
                (int)len, at);
        if (row)
            hidden |= row->offer;
        at += len + (at[len] == ',');
    }
    *ret_hidden = hidden;
    return 0;
}

/* The flag words of an INIT request, or NULL where it is too short for them (old kernels send no
 * flags2). */
static uint32_t *flags_of(void *request, size_t len)
{
    size_t at = sizeof(struct wire_in_header) + offsetof(struct wire_init_in, flags);

    return len >= at + sizeof(uint32_t) ? (void *)((char *)request + at) : NULL;
}

static uint32_t *flags2_of(void *request, size_t len)
{
    size_t at = sizeof(struct wire_in_header) + offsetof(struct wire_init_in, flags2);
    const uint32_t *flags = flags_of(request, len);

    if (!flags || !(*flags & WIRE_INIT_EXT) || len < at + sizeof(uint32_t))
        return NULL;
    return (void *)((char *)request + at);
}

unsigned probe_offers(const void *init_request, size_t len)
{
    const uint32_t *flags = flags_of((void *)init_request, len);
    const uint32_t *flags2 = flags2_of((void *)init_request, len);
    unsigned offers = 0;

    for (size_t i = 0; i < N_OFFERS; i++) {
        const struct offer_row *row = &offer_rows[i];
        bool by_flag = row->flags || row->flags2;

        if (!by_flag || (flags && (*flags & row->flags)) || (flags2 && (*flags2 & row->flags2)))
            offers |= row->offer;
    }
    return offers;
}

void probe_hide(void *init_request, size_t len, unsigned hidden)
{
    uint32_t *flags = flags_of(init_request, len);
    uint32_t *flags2 = flags2_of(init_request, len);

    for (size_t i = 0; i < N_OFFERS; i++) {
        if (!(hidden & offer_rows[i].offer))
            continue;
        if (flags)
            *flags &= ~offer_rows[i].flags;
        if (flags2)
            *flags2 &= ~offer_rows[i].flags2;
    }
}

/* Appends a reason to the sentence. */
__attribute__((format(printf, 2, 3))) static void because(struct decision *d, const char *fmt, ...)
{
    size_t used = strlen(d->why);
    va_list ap;

    if (used && used + 2 < sizeof(d->why)) {
        memcpy(d->why + used, "; ", 3);
        used += 2;
    }
    va_start(ap, fmt);
    vsnprintf(d->why + used, sizeof(d->why) - used, fmt, ap);
    va_end(ap);
}

static void decide_open(unsigned offers, bool shards, const char *backing, struct decision *d)
{
    const char *mode = "no_open";

    if (shards && d->passthrough && !backing) {
        mode = "passthrough";
        because(d,
                "profile shards: complete objects are read by the kernel straight from the cache");
    } else if (shards) {
        mode = "open";
        d->passthrough = false;
        because(d, "profile shards without passthrough: %s",
                !(offers & OFFER_PASSTHROUGH) ? "the kernel does not offer it"
                : backing                     ? backing
                                              : "backing files can't be registered");
    } else if (offers & OFFER_NO_OPEN) {
        d->no_open = true;
        because(d, "the kernel opens files by itself: a page-cache hit makes no round trip");
    } else {
        mode = "open";
        because(d,
                "the kernel does not offer no_open: each open is one round trip, pages are kept");
    }
    snprintf(d->mode, sizeof(d->mode), "%s", mode);
}

void probe_decide(unsigned offers, bool shards, const char *backing, struct decision *ret)
{
    struct decision d = {
        .no_opendir = (offers & OFFER_NO_OPENDIR) && (offers & OFFER_NOTIFY),
        .cache_dirs = offers & OFFER_NOTIFY,
        .readdirplus = offers & OFFER_READDIRPLUS,
        .async_read = offers & OFFER_ASYNC_READ,
        .notify = offers & OFFER_NOTIFY,
        .passthrough = shards && (offers & OFFER_PASSTHROUGH) && (offers & OFFER_IOCTL),
        .timeout_s = offers & OFFER_NOTIFY ? DAY_S : 1.0,
    };

    decide_open(offers, shards, backing, &d);
    if (!(offers & OFFER_NO_OPENDIR))
        because(&d, "no no_opendir: folders are opened one by one");
    if (!d.readdirplus)
        because(&d, "no readdirplus: a walk looks every name up");
    if (!d.async_read)
        because(&d, "no async_read: one READ a file at a time");
    if (!d.notify)
        because(&d, "no notifications: names are checked again every second, listings each time");
    if (!(offers & OFFER_MAX_PAGES))
        because(&d, "no max_pages: READs of at most 128 KiB");
    *ret = d;
}

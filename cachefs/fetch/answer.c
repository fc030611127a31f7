/*
 * Judging what came: the head of an answer before its first byte is taken, the whole of it after
 * the last. Nothing that a server says is believed unless it agrees with what was asked and with
 * what the catalog says.
 */
#include <string.h>

#include "engine-internal.h"
#include "crc.h"
#include "hash.h"

static bool ok(const struct flight *fl)
{
    return fl->answer.status / 100 == 2;
}

int stale_size(struct err *err, int64_t came, uint64_t size)
{
    return err_set(err, ERR_STALE,
                   "changed at the source since the scan: it has %lld bytes, the catalog says %llu "
                   "(scan again, or mount with --refresh)",
                   (long long)came, (unsigned long long)size);
}

int stale_deleted(struct err *err)
{
    return err_set(err, ERR_STALE,
                   "deleted at the source since the scan (scan again, or mount with --refresh)");
}

static int check_part(struct flight *fl, const struct fetch_get *g)
{
    const struct http_answer *a = &fl->answer;
    if (a->range_total >= 0 && g->object_size != FETCH_SIZE_UNKNOWN &&
        (uint64_t)a->range_total != g->object_size)
        return stale_size(&fl->why, a->range_total, g->object_size);
    if (a->range_start < 0 || (uint64_t)a->range_start != g->off ||
        (uint64_t)a->range_end != g->off + g->len - 1)
        return err_set(&fl->why, ERR_CORRUPT,
                       "the server sent another range than it was asked for");
    if (a->content_length >= 0 && (uint64_t)a->content_length != g->len)
        return err_set(&fl->why, ERR_CORRUPT, "the server announced %lld bytes for a range of %u",
                       (long long)a->content_length, g->len);
    return 0;
}

/* The whole object: as asked, or because the server knows no ranges. The range is cut out of it. */
static int check_whole(struct flight *fl, const struct fetch_get *g)
{
    const struct http_answer *a = &fl->answer;
    bool partial = store_caps(g->store) & STORE_RANGE_200;
    uint64_t size = partial ? g->len : g->object_size;
    if (a->content_length >= 0 && size != FETCH_SIZE_UNKNOWN &&
        (uint64_t)a->content_length != size) {
        if (partial || (*g->etag && strcmp(g->etag, a->etag) == 0))
            return err_set(&fl->why, ERR_CORRUPT, "the server announced %lld bytes instead of %llu",
                           (long long)a->content_length, (unsigned long long)size);
        return stale_size(&fl->why, a->content_length, g->object_size);
    }
    if (partial)
        return 0;
    fl->skip = g->off;
    fl->beyond = size == FETCH_SIZE_UNKNOWN ? UINT64_MAX : size - g->off - g->len;
    return 0;
}

int answer_check_head(struct flight *fl)
{
    fl->checked = true;
    if (!fl->job->is_get || !ok(fl))
        return 0;
    const struct fetch_get *g = &fl->job->get;
    if (store_check_etag(g->etag, &fl->answer, &fl->why))
        return -1;
    if (fl->answer.status == 206 ? check_part(fl, g) : check_whole(fl, g))
        return -1;
    fl->data = true;
    return 0;
}

/* --- after the transfer ---------------------------------------------------------------------- */

static enum again again_of_class(enum err_class class)
{
    return retry_of_class(class) == RETRY_PAUSE ? AGAIN_LATER : OVER;
}

static int judge_transport(struct flight *fl, CURLcode code, enum again *ret, struct err *err)
{
    if (code == CURLE_UNSUPPORTED_PROTOCOL && fl->answer.status / 100 == 3)
        http_redirect_refused(fl->req.url.data, err);
    /* Something answered, but not in HTTP: as passing as a broken connection. */
    else if (code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_WEIRD_SERVER_REPLY)
        err_set(err, ERR_TRANSIENT, "the answer is not HTTP (%s)", fl->detail);
    else
        http_transport_error(code, fl->detail, fl->req.url.data, err);
    fl->job->fresh = true;
    *ret = again_of_class(err->class);
    return -1;
}

/* What "not there" and "not as you say" mean for an object that the catalog has. */
static void stale_if_gone(const struct flight *fl, struct err *err)
{
    if (!fl->job->is_get)
        return;
    if (err->class == ERR_NOT_FOUND)
        stale_deleted(err);
    else if (fl->answer.status == 412 || fl->answer.status == 416)
        err_set(err, ERR_STALE,
                "changed at the source since the scan: HTTP %d (scan again, or mount with "
                "--refresh)",
                fl->answer.status);
}

static int judge_status(struct flight *fl, enum again *ret, struct err *err)
{
    enum store_again again = AGAIN_NO;
    if (store_classify((struct store *)job_store(fl->job), &fl->req, &fl->answer, fl->text.data,
                       fl->text.len, &again, err) == 0) {
        if (!fl->job->is_get)
            return 0; /* or the first step of a write in two */
        err_set(err, ERR_FAILED, "HTTP %d where data was expected", fl->answer.status);
    }
    switch (again) {
    case AGAIN_BACKOFF:
        *ret = AGAIN_LATER;
        break;
    case AGAIN_CREDS:
        *ret = AGAIN_NEW_CREDS;
        break;
    case AGAIN_REDIRECT:
    case AGAIN_CLOCK:
        *ret = AGAIN_NOW;
        break;
    default:
        *ret = OVER;
        stale_if_gone(fl, err);
    }
    return -1;
}

/* Whether the store says itself what the sum of these bytes is. */
static bool comes_with_sum(const struct flight *fl)
{
    return !fl->job->get.sum_of_range && fl->answer.status == 200 && store_has_sum(&fl->answer);
}

/* The sum of a whole object: the catalog's (a manifest gives it), the store's own, or its ETag with
 * --verify-etag. */
static int check_sum(struct fetch *f, const struct flight *fl, struct err *err)
{
    const struct fetch_get *g = &fl->job->get;
    if (!fl->job->is_get)
        return 0;
    if (!g->sum_of_range && (g->off != 0 || g->len != g->object_size))
        return 0;
    if (store_etag_is_sum(g->etag))
        return store_check_sum(g->etag, fl->to, g->len, err);
    if (comes_with_sum(fl))
        return store_check_own_sum(&fl->answer, fl->to, g->len, err);
    if (!f->conf.verify_md5 || f->md5_useless || !hex_is(g->etag, MD5_DIGITS))
        return 0;
    char sum[64];
    snprintf(sum, sizeof sum, "sum:md5:%s", g->etag);
    if (store_check_sum(sum, fl->to, g->len, NULL))
        return err_set(err, ERR_CORRUPT,
                       "wrong bytes: their MD5 is not the ETag (if the store encrypts "
                       "objects, mount without --verify-etag)");
    f->md5_seen = true;
    return 0;
}

/* The network damages no two bodies alike: such bytes are what the store has. */
static bool same_as_before(const struct flight *fl)
{
    struct job *j = fl->job;
    uint32_t sum = crc32c(0, fl->to, j->get.len);
    bool same = j->sum_seen && j->sum == sum;
    j->sum_seen = true;
    j->sum = sum;
    return same;
}

/* An ETag that looks like an MD5 may be none (some kinds of encryption at the store): if no object
 * had one that is, no more are looked at. */
static int judge_sum(struct fetch *f, const struct flight *fl, enum again *ret, struct err *err)
{
    if (check_sum(f, fl, err) == 0)
        return 0;
    *ret = AGAIN_LATER;
    if (!same_as_before(fl))
        return -1;
    *ret = OVER;
    if (f->md5_seen || store_etag_is_sum(fl->job->get.etag) || comes_with_sum(fl))
        return -1;
    f->md5_useless = true;
    err_clear(err);
    return 0;
}

int answer_judge(struct fetch *f, struct flight *fl, CURLcode code, enum again *ret,
                 struct err *err)
{
    if (fl->cut) {
        *err = fl->why;
        *ret = again_of_class(err->class);
        fl->job->fresh = true;
        return -1;
    }
    if (code != CURLE_OK && !fl->enough)
        return judge_transport(fl, code, ret, err);
    /* A good status may come with a failure, told in the body: the store knows. */
    if (!ok(fl) || !fl->job->is_get)
        return judge_status(fl, ret, err);
    if (!fl->checked && answer_check_head(fl)) {
        *err = fl->why;
        *ret = again_of_class(err->class);
        return -1;
    }
    if (fl->got != fl->want) {
        *ret = AGAIN_LATER;
        return err_set(err, ERR_CORRUPT, "the body ended after %llu of %llu bytes",
                       (unsigned long long)fl->got, (unsigned long long)fl->want);
    }
    return judge_sum(f, fl, ret, err);
}

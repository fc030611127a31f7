/*
 * An object that an upload of ours made, and of which nobody heard: this life or an earlier one was
 * killed, or the answer was lost. Parts of it may have been copied from the very object that it
 * replaced, and those can't be had from there again. So each upload in parts has a mark, which its
 * object carries as metadata, and before the upload ends the journal has that, and the ETag of what
 * it makes where it can be known. Who finds another object than the row's compares: if it is that
 * one, the row's object is that one from then on. What is here stays as it is: of each block that
 * is only in the store, or here as stored, the new object has the bytes that the old one had.
 *
 * Other programs that change an object keep metadata which they do not know (s3fs). They change its
 * mtime, so a mark counts only beside the mtime that it was sent with.
 */
#define LOG_MODULE "stage"

#include <fcntl.h>
#include <string.h>

#include "file.h"
#include "hash.h"
#include "log.h"
#include "mem.h"
#include "content-internal.h"
#include "owed-internal.h"

/* s->lock held. */
static bool is_own_key(const struct node *n, const char *key)
{
    cleanup_free char *stored = n->row.flags & N_STORED ? node_stored_key(n) : NULL;
    return stored && strcmp(stored, key) == 0;
}

int ours_expect(struct content *c, const char *key, const struct part_tag *parts, unsigned n,
                uint64_t size, struct err *err)
{
    struct stage *s = c->stage;
    char etag[160];
    if (!store_parts_etag(parts, n, etag))
        *etag = '\0';
    {
        ACQUIRE(&s->lock);
        if (!is_own_key(c->node, key))
            return 0;
        if (journal_part(s, c->node->row.ino, PART_WHOLE, size, etag, err))
            return -1;
    }
    return journal_sync(s, err);
}

struct expected {
    char *key, *id;
    struct seen whole; /* size 0: the store was not asked to end the upload */
    int64_t mtime_ns;  /* beside whole.mark */
};

static void take_whole(void *arg, unsigned part, uint64_t len, const char *etag)
{
    struct expected *e = arg;
    if (part == PART_WHOLE && etag) {
        e->whole.size = len;
        e->whole.mtime_ns = LIST_MTIME_UNKNOWN;
        snprintf(e->whole.etag, sizeof e->whole.etag, "%s", etag);
    } else if (part == PART_MARK && etag) {
        e->mtime_ns = (int64_t)len;
        snprintf(e->whole.mark, sizeof e->whole.mark, "%s", etag);
    }
}

/* s->lock held. It was expected and is not what the row has. */
static bool is_news(struct stage *s, const struct node *n, struct expected *ret)
{
    return journal_find_upload(s, n->row.ino, &ret->key, &ret->id, take_whole, ret) &&
           ret->whole.size && is_own_key(n, ret->key) && strcmp(ret->whole.etag, n->row.etag) != 0;
}

/* What is there, if it is that one, is in e->whole then: of one upload there is one object,
 * whatever its later tries would have made of it. */
static bool is_there(struct stage *s, struct expected *e)
{
    struct object_meta meta = {0};
    struct seen now;
    bool known;
    if (remote_look(s, e->key, &meta, &known, &now, NULL))
        return false;
    bool marked = *now.mark && strcmp(now.mark, e->whole.mark) == 0 && meta.mtime_ns == e->mtime_ns;
    bool same = *now.etag && strcmp(now.etag, e->whole.etag) == 0 && now.size == e->whole.size;
    snprintf(e->whole.etag, sizeof e->whole.etag, "%s", now.etag);
    e->whole.size = now.size;
    return marked || same;
}

/* s->lock held. */
static bool take(struct stage *s, struct node *n, const struct expected *e)
{
    struct record row = n->row;
    row.etag = xstrdup(e->whole.etag);
    row.rsize = e->whole.size;
    row.rmtime_ns = e->whole.mtime_ns;
    if (journal_put_record(s, &row, NULL)) {
        free(row.etag);
        return false;
    }
    free(n->row.etag);
    n->row = row;
    log_warn(s->conf.log, "an upload had ended without an answer: its object counts path=%s",
             e->key);
    return true;
}

bool ours_adopt(struct content *c)
{
    struct stage *s = c->stage;
    struct node *n = c->node;
    struct expected e = {0};
    uint64_t gen;
    bool news;
    {
        ACQUIRE(&s->lock);
        gen = n->row.gen;
        news = is_news(s, n, &e);
    }
    if (news) {
        lock_drop(&c->lock);
        news = is_there(s, &e);
        lock_take(&c->lock);
    }
    if (news) {
        ACQUIRE(&s->lock);
        news = n->row.gen == gen && is_own_key(n, e.key) &&
               strcmp(n->row.etag, e.whole.etag) != 0 && take(s, n, &e);
    }
    free(e.key);
    free(e.id);
    return news;
}

static bool begins_with(int fd, const struct seen *seen)
{
    cleanup_free char *sum = xasprintf("sum:md5:%s", seen->etag);
    cleanup_free char *bytes = xmalloc(seen->size + 1);
    return file_read(fd, bytes, seen->size, 0) == (ssize_t)seen->size &&
           store_check_sum(sum, bytes, seen->size, NULL) == 0;
}

bool ours_begins(struct stage *s, struct node *n, const struct seen *seen)
{
    const unsigned looked_at = N_DIRTY | N_STAGED | N_MAP;
    if ((n->row.flags & looked_at) != (N_DIRTY | N_STAGED) || !hex_is(seen->etag, MD5_DIGITS) ||
        seen->size >= STAGE_MULTIPART)
        return false;
    char name[32];
    content_name(n->row.ino, false, name);
    cleanup_close int fd = openat(s->data_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    n->pins++;
    lock_drop(&s->lock);
    bool same = false;
    if (memory_take(s, &s->going_up, seen->size, true)) {
        same = begins_with(fd, seen);
        memory_give(s, &s->going_up, seen->size);
    }
    lock_take(&s->lock);
    n->pins--;
    return same;
}

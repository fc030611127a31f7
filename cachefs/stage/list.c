/*
 * What the store says, merged with what is here. A folder is listed when somebody looks at it and
 * its last listing is older than `refresh`; an object of somebody else is looked at (HEAD) once for
 * each content, since a listing does not tell its attributes nor that it is a link.
 *
 * What we changed at the store after a listing began, or are changing, is not judged by it: each of
 * our changes carries a moment, each listing the moment of its beginning.
 */
#define LOG_MODULE "stage"

#include <errno.h>
#include <string.h>

#include "clock.h"
#include "dir.h"
#include "hash.h"
#include "log.h"
#include "mem.h"
#include "content-internal.h"
#include "owed-internal.h"

#define LIST_SHARE 8 /* a listing that is slow takes at most an eighth of the time */
#define LIST_SLOW  (100 * NS_PER_MS)
#define LIST_AGAIN NS_PER_S /* after one that failed, while an older one serves */

/* --- telling --------------------------------------------------------------------------------- */

void tell_change(struct stage *s, uint64_t ino, const char *name)
{
    if (!s->changed_fn)
        return;
    struct change *c = xcalloc(1, sizeof *c);
    c->ino = ino;
    c->name = name ? xstrdup(name) : NULL;
    *s->tells_end = c;
    s->tells_end = &c->next;
    cond_signal(&s->tell);
}

void *tell_main(void *arg)
{
    struct stage *s = arg;
    ACQUIRE(&s->lock);
    while (!s->stopping) {
        struct change *c = s->tells;
        if (!c) {
            cond_wait(&s->tell, &s->lock);
            continue;
        }
        stage_changed_fn *fn = s->changed_fn;
        void *fn_arg = s->changed_arg;
        s->tells = c->next;
        if (!s->tells)
            s->tells_end = &s->tells;
        s->telling = true;
        lock_drop(&s->lock);
        if (fn)
            fn(fn_arg, c->ino, c->name);
        free(c->name);
        free(c);
        lock_take(&s->lock);
        s->telling = false;
        cond_broadcast(&s->tell);
    }
    return NULL;
}

void stage_on_change(struct stage *s, stage_changed_fn *fn, void *arg)
{
    ACQUIRE(&s->lock);
    s->changed_fn = fn;
    s->changed_arg = arg;
    while (s->telling)
        cond_wait(&s->tell, &s->lock);
}

/* --- what a listing collects ----------------------------------------------------------------- */

struct found {
    char *name;
    bool folder, known;
    bool grew; /* it continues that generation of the node's content */
    bool ours; /* what is being written here begins with it */
    uint64_t gen;
    struct object_meta meta;
    struct seen seen;
};

struct collected {
    struct found *items;
    size_t n, cap;
};

static void collected_release(struct collected *c)
{
    for (size_t i = 0; i < c->n; i++)
        free(c->items[i].name);
    free(c->items);
}

static int collect(void *arg, const struct level_item *item, struct err *err)
{
    struct collected *c = arg;
    (void)err;
    size_t len = strlen(item->name);
    if (len > NAME_MAX || name_is_dots(item->name))
        return 0;
    if (c->n == c->cap) {
        c->cap = c->cap ? 2 * c->cap : 64;
        c->items = xrealloc(c->items, c->cap * sizeof c->items[0]);
    }
    c->items[c->n++] = (struct found){.name = xstrdup(item->name),
                                      .folder = item->folder,
                                      .known = item->known,
                                      .meta = item->meta,
                                      .seen = *item->seen};
    return 0;
}

/* --- merging --------------------------------------------------------------------------------- */

static bool same_object(const struct node *n, const struct seen *seen)
{
    if (*n->row.etag && *seen->etag)
        return strcmp(n->row.etag, seen->etag) == 0;
    return n->row.rsize == seen->size && n->row.rmtime_ns == seen->mtime_ns;
}

static void take_meta(struct node *n, const struct object_meta *m)
{
    n->row.mode = m->mode & 07777;
    n->row.uid = m->uid;
    n->row.gid = m->gid;
    n->row.mtime_ns = m->mtime_ns;
    if (n->row.kind == NODE_FILE && S_ISLNK(m->mode))
        n->row.kind = NODE_LINK;
    n->row.flags |= N_KNOWN;
}

static void take_seen(struct node *n, const struct seen *seen)
{
    free(n->row.etag);
    n->row.etag = xstrdup(seen->etag);
    n->row.rsize = seen->size;
    n->row.rmtime_ns = seen->mtime_ns;
    n->row.flags |= N_STORED;
}

static void take_found(struct node *n, const struct found *f)
{
    take_seen(n, &f->seen);
    n->row.size = f->seen.size;
    n->row.mtime_ns = f->seen.mtime_ns;
    n->row.flags &= ~(unsigned)N_KNOWN;
    free(n->row.target);
    n->row.target = NULL;
    if (f->known) {
        n->row.kind = f->folder ? NODE_FOLDER : S_ISLNK(f->meta.mode) ? NODE_LINK : NODE_FILE;
        take_meta(n, &f->meta);
    }
}

/* Who has it open goes on in the new content: he only writes, or reads a file that grew. */
static bool goes_on(const struct node *n, const struct found *f)
{
    return !n->given || (f->grew && f->gen == n->row.gen);
}

/* A node's object was replaced by another writer, and nothing is here that it lacks. */
static void replace(struct stage *s, struct node *n, const struct found *f)
{
    bool same = goes_on(n, f);
    n->same_back = same ? n->same_back + 1 : 0;
    n->given = n->given && same;
    n->row.gen++;
    if (n->row.kind == NODE_LINK)
        n->row.kind = NODE_FILE; /* until it is looked at again */
    take_found(n, f);
    drop_list_remove(s, n);
    if (!n->content)
        content_discard(s, n); /* else who uses it sees the new generation, and begins anew */
    n->row.flags &= ~(unsigned)(N_STAGED | N_MAP);
    tell_change(s, n->row.ino, NULL);
}

/* What the store has is whole and later than what its row knew: better than a torn remainder. */
static void give_up_torn(struct stage *s, struct node *n)
{
    cleanup_free char *key = node_key_new(n);
    log_warn(s->conf.log,
             "the store has a later content than what the machine's stop has torn here: that "
             "one is dropped path=%s",
             key);
    n->row.flags &= ~(unsigned)(N_DIRTY | N_PUBLISH | N_HELD | N_SYNCED | N_DURABLE);
    n->row.flags |= N_STORED;
    dirty_remove(s, n);
    owed_remove(s, n);
}

void node_replaced(struct stage *s, struct node *n, const struct seen *seen,
                   const struct object_meta *meta)
{
    struct found f = {.known = meta != NULL, .seen = *seen};
    if (meta)
        f.meta = *meta;
    if (n->row.flags & N_HELD)
        give_up_torn(s, n);
    int64_t mtime_ns = n->row.mtime_ns;
    replace(s, n, &f);
    if (n->row.flags & N_META)
        n->row.mtime_ns = mtime_ns; /* a call set it: the object gets it yet */
}

static void changed_under_dirty(struct stage *s, struct node *n)
{
    if (n->foreign_told)
        return;
    n->foreign_told = true;
    cleanup_free char *key = node_key_new(n);
    log_warn(s->conf.log,
             "the store has another content of a file that is being written here (another "
             "writer's, or ours of which no answer came): ours will replace it path=%s",
             key);
}

static void add_found(struct stage *s, struct node *folder, const struct found *f)
{
    struct node *n = node_make(s, f->folder ? NODE_FOLDER : NODE_FILE, f->name, NULL);
    if (!n)
        return; /* the next listing finds it */
    n->row.flags |= f->folder ? 0 : N_STORED;
    if (!f->folder || f->known)
        take_found(n, f);
    if (f->folder)
        n->row.flags &= ~(unsigned)N_STORED; /* whether it has a marker is seen by a look */
    n->mark = s->marks;
    node_link(s, folder, n);
    journal_put(s, n, NULL);
}

/* Something is here, below or in it, that the store does not have. */
static bool is_ours(const struct node *n)
{
    if (n->row.flags & (N_DIRTY | N_META | N_PUBLISH) || n->row.skey || n->busy || n->writers)
        return true;
    for (const struct node *c = n->first; c; c = c->after)
        if (is_ours(c))
            return true;
    return false;
}

/* The store has it no more: out of the tree, with all below. Who reads it goes on in what of it is
 * here; who opens or changes it by a name that the kernel remembers is to look that up again. */
void node_lose(struct stage *s, struct node *n)
{
    struct node *folder = n->parent;
    while (n->first)
        node_lose(s, n->first);
    if (folder)
        tell_change(s, folder->row.ino, n->row.name);
    node_unlink(s, n);
    n->row.flags = (n->row.flags | N_ORPHAN) & ~(unsigned)N_STORED;
    n->told_gen = n->row.gen - 1;
    journal_put(s, n, NULL);
    drop_list_remove(s, n);
    node_reap(s, n);
}

/* This node was touched by us since, so that the listing has no say. */
static bool too_late(const struct node *n, uint64_t moment)
{
    return n->busy || n->moment > moment || n->row.skey;
}

/* The bytes are as they were; what describes them may have been changed by somebody. */
static void same_content(struct stage *s, struct node *n, const struct found *f)
{
    if (n->row.flags & (N_META | N_DIRTY) || n->row.rmtime_ns == f->seen.mtime_ns)
        return;
    if (f->known)
        take_meta(n, &f->meta);
    else if (n->row.rmtime_ns != LIST_MTIME_UNKNOWN) /* else we wrote it ourselves */
        n->row.flags &= ~(unsigned)N_KNOWN;
    n->row.rmtime_ns = f->seen.mtime_ns;
    journal_put(s, n, NULL);
}

/* The kernel's pages and size are of an inode: who has a file open that is another now keeps them,
 * and who opens it from now on gets others. */
static void make_way(struct stage *s, struct node *n, const struct found *f)
{
    struct node *folder = n->parent;
    n->row.gen++;
    n->same_back = 0;
    node_lose(s, n); /* which tells the name */
    add_found(s, folder, f);
}

static void merge_known(struct stage *s, struct node *n, const struct found *f, uint64_t moment)
{
    if (n->mark == s->marks && node_is_folder(n) && !f->folder)
        return; /* a file and a folder of one name: the folder hides the file */
    n->mark = s->marks;
    if (too_late(n, moment))
        return;
    if (node_is_folder(n) != f->folder) {
        if (!is_ours(n))
            make_way(s, n, f);
        return;
    }
    if (f->folder) {
        if (f->known && !(n->row.flags & N_META)) {
            int64_t mtime = n->row.mtime_ns;
            take_meta(n, &f->meta);
            if (s->caps & STORE_LOCAL && (n->explicit_mtime || n->names_ns || n->stirred))
                n->row.mtime_ns = mtime; /* what we publish in it moves the store's */
            journal_put(s, n, NULL);
        }
        return;
    }
    if (n->row.flags & N_STORED && same_object(n, &f->seen)) {
        same_content(s, n, f);
        return;
    }
    if (n->row.flags & N_HELD) { /* stored before the machine stopped, or by another since */
        give_up_torn(s, n);
    } else if (n->row.flags & N_DIRTY) {
        if (!f->ours && (n->row.flags & N_STORED || !(n->row.flags & N_PUBLISH)))
            changed_under_dirty(s, n);
        /* Once is enough; what is ABSENT of the old one is gone, and reading it says so. */
        if (!(n->row.flags & N_MAP))
            take_seen(n, &f->seen);
        journal_put(s, n, NULL);
        return;
    }
    if (!goes_on(n, f) && (n->opens || n->known_before) && !(n->row.flags & N_META)) {
        make_way(s, n, f);
        return;
    }
    replace(s, n, f);
    journal_put(s, n, NULL);
}

static void sweep(struct stage *s, struct node *folder, uint64_t moment)
{
    for (struct node *n = folder->first, *next; n; n = next) {
        next = n->after;
        if (n->mark == s->marks || too_late(n, moment) || is_ours(n)) {
            if (n->mark != s->marks && !too_late(n, moment) && n->row.flags & N_DIRTY &&
                n->row.flags & N_STORED && !(n->row.flags & N_MAP)) {
                n->row.flags &= ~(unsigned)N_STORED; /* deleted elsewhere; ours comes back */
                journal_put(s, n, NULL);
            }
            continue;
        }
        if (node_is_folder(n) || n->row.flags & N_STORED)
            node_lose(s, n);
    }
}

/* A key that is about to go, or whose object moves away, is not there any more. Nor is a folder
 * that the listing shows for what of that lies in it. */
static bool is_going(struct stage *s, const struct bytes *prefix, const struct found *f,
                     uint64_t moment)
{
    cleanup_free char *key =
        xasprintf("%s%s%s", prefix->data ? prefix->data : "", f->name, f->folder ? "/" : "");
    return doom_find(s, key) || holder_of(s, key) || gone_since(s, key, moment) ||
           (f->folder && goes_below(s, key));
}

static void merge(struct stage *s, struct node *folder, const struct collected *c, uint64_t moment)
{
    cleanup_bytes struct bytes prefix = {0};
    node_key(folder, &prefix);
    s->marks++;
    bool tx = journal_begin(s, NULL) == 0;
    for (int folders = 1; folders >= 0; folders--) /* folders first: they hide files */
        for (size_t i = 0; i < c->n; i++) {
            const struct found *f = &c->items[i];
            if (f->folder != (bool)folders)
                continue;
            struct node *n = child_of(s, folder, f->name);
            if (is_going(s, &prefix, f, moment) && !(n && node_is_folder(n) && f->folder))
                continue;
            if (n) {
                merge_known(s, n, f, moment);
            } else {
                add_found(s, folder, f);
                tell_change(s, folder->row.ino, f->name);
            }
        }
    sweep(s, folder, moment);
    bool first = tx && !(folder->row.flags & N_LISTED);
    if (first) {
        folder->row.flags |= N_LISTED;
        journal_put(s, folder, NULL);
    }
    /* What is lost of it, the next listing finds again. */
    if (tx && journal_commit(s, NULL) && first)
        folder->row.flags &= ~(unsigned)N_LISTED;
}

/* Open files that grew are told from those that were replaced, and what we stored unheard from what
 * others did, before anything is merged. */
static void look_closer(struct stage *s, const struct node *folder, struct collected *c,
                        uint64_t moment)
{
    for (size_t i = 0; i < c->n; i++) {
        struct found *f = &c->items[i];
        struct node *n = f->folder ? NULL : child_of(s, folder, f->name);
        if (!n || too_late(n, moment))
            continue;
        f->grew = node_has_grown(s, n, &f->seen, &f->gen);
        f->ours = !n->foreign_told && !same_object(n, &f->seen) && ours_begins(s, n, &f->seen);
    }
}

/* --- refreshing ------------------------------------------------------------------------------ */

bool folder_is_fresh(const struct stage *s, const struct node *folder)
{
    uint64_t keep = s->conf.refresh_ns;
    if (keep != STAGE_EACH_LOOK && folder->list_took_ns > LIST_SLOW &&
        keep < LIST_SHARE * folder->list_took_ns)
        keep = LIST_SHARE * folder->list_took_ns;
    uint64_t now = clock_mono_ns();
    if (now < folder->list_again_ns)
        return true;
    return folder->listed_ns && now - folder->listed_ns < keep;
}

bool folder_was_listed(const struct node *folder, uint64_t since_ns)
{
    return folder->listed_ns >= since_ns || folder->list_again_ns >= since_ns + LIST_AGAIN;
}

static int list_now(struct stage *s, struct node *folder, bool force, struct err *err)
{
    CLEANUP(collected_release) struct collected found = {0};
    cleanup_free char *prefix = node_key_new(folder);
    uint64_t moment = s->moment, start = clock_mono_ns();
    folder->listing = true;
    folder->pins++;
    lock_drop(&s->lock);
    struct err why = {0};
    int result = remote_level(s, prefix, collect, &found, &why);
    lock_take(&s->lock);
    if (result == 0)
        look_closer(s, folder, &found, moment);
    folder->listing = false;
    folder->pins--;
    cond_broadcast(&s->changed);
    bool known = folder->listed_ns || folder->row.flags & N_LISTED; /* by a life before this one */
    if (result && why.class == ERR_TRANSIENT && known && !force) {
        /* A store in trouble must not stop who works here: what was known goes on to hold. */
        folder->list_again_ns = clock_mono_ns() + LIST_AGAIN;
        return 0;
    }
    if (result) {
        if (err)
            *err = why;
        return -1;
    }
    cleanup_free char *now = folder->row.flags & N_ORPHAN ? NULL : node_key_new(folder);
    if (!now || strcmp(now, prefix) != 0)
        return 0; /* renamed meanwhile: what was listed is another place */
    folder->listed_ns = start;
    folder->list_took_ns = clock_mono_ns() - start;
    merge(s, folder, &found, moment);
    return 0;
}

int folder_refresh(struct stage *s, struct node *folder, bool wait, bool force, struct err *err)
{
    uint64_t asked = clock_mono_ns();
    while (force ? folder->listed_ns < asked : !folder_is_fresh(s, folder)) {
        if (folder->row.flags & N_ORPHAN)
            return 0;
        if (!wait)
            return STAGE_WAIT;
        if (folder->listing) {
            folder->pins++;
            cond_wait(&s->changed, &s->lock);
            folder->pins--;
            continue;
        }
        if (list_now(s, folder, force, err))
            return -1;
        if (!force)
            return 0; /* fresh enough, however long it took */
    }
    return 0;
}

/* --- looking --------------------------------------------------------------------------------- */

static int look_now(struct stage *s, struct node *n, struct err *err)
{
    cleanup_free char *key = node_stored_key(n);
    struct object_meta meta = {
        .mode = n->row.mode, .uid = n->row.uid, .gid = n->row.gid, .mtime_ns = n->row.mtime_ns};
    struct seen seen = {0};
    struct err why = {0};
    bool known;
    uint64_t moment = s->moment;
    n->looking = true;
    n->pins++;
    lock_drop(&s->lock);
    int result = remote_look(s, key, &meta, &known, &seen, &why);
    lock_take(&s->lock);
    n->looking = false;
    n->pins--;
    cond_broadcast(&s->changed);
    if (result && !(why.class == ERR_NOT_FOUND && node_is_folder(n))) {
        if (err)
            *err = why;
        return -1;
    }
    if (n->moment > moment || n->row.flags & N_KNOWN)
        return 0;
    if (result == 0) { /* otherwise a folder without a marker: implied by what is below */
        if (!known)
            meta.mode = n->row.mode;
        take_meta(n, &meta);
        if (node_is_folder(n))
            n->row.flags |= N_STORED;
    }
    n->row.flags |= N_KNOWN;
    journal_save(s, n, NULL);
    return 0;
}

int node_look(struct stage *s, struct node *n, bool wait, struct err *err)
{
    while (!(n->row.flags & (N_KNOWN | N_ORPHAN)) && n->parent) {
        if (!(s->caps & STORE_META) || n->row.flags & N_DIRTY) {
            n->row.flags |= N_KNOWN;
            return 0;
        }
        if (!wait)
            return STAGE_WAIT;
        n->pins++;
        int result = 0;
        if (n->looking)
            cond_wait(&s->changed, &s->lock);
        else
            result = look_now(s, n, err);
        n->pins--;
        if (result)
            return -1;
    }
    return 0;
}

/*
 * Whose numbers a version has. Numbers come from the sorted walk, or from the sampler's list file;
 * a version made with a list is another version (its digest covers them). The owner's folder notes
 * the last versions that were numbered by a list, and their lists' hashes: "DIGEST HASH\n" each in
 * `numbering`, newest first. So a mount with the same list does not scan again, and one with
 * another list, or none, does.
 */
#include "volume-internal.h"

#include <errno.h>

#include "hash.h"

struct noted {
    char digest[CATALOG_DIGEST + 1];
    unsigned long long hash;
};

/* The notes of the folder, at most `most`. */
static size_t read_notes(const char *dir, struct noted *ret, size_t most)
{
    cleanup_free char *path = xasprintf("%s/numbering", dir);
    cleanup_file FILE *f = fopen(path, "re");
    size_t n = 0;
    while (f && n < most && fscanf(f, "%64s %16llx", ret[n].digest, &ret[n].hash) == 2)
        n++;
    return n;
}

int numbering_note(const char *dir, const char *digest, uint64_t list_hash, struct err *err)
{
    cleanup_free char *path = xasprintf("%s/numbering", dir);
    cleanup_free char *part = xasprintf("%s/numbering.%d", dir, (int)getpid());
    struct noted before[VERSIONS_KEPT];
    size_t n = read_notes(dir, before, VERSIONS_KEPT);
    FILE *f = fopen(part, "we");
    if (!f)
        return err_sys(err, errno, "write %s", part);
    fprintf(f, "%s %016llx\n", digest, (unsigned long long)list_hash);
    for (size_t i = 0; i < n; i++)
        if (strcmp(before[i].digest, digest) != 0)
            fprintf(f, "%s %016llx\n", before[i].digest, before[i].hash);
    bool written = fflush(f) == 0 && fsync(fileno(f)) == 0;
    if (fclose(f) || !written || rename(part, path)) {
        int error = errno;
        unlink(part);
        return err_sys(err, error, "write %s", path);
    }
    return 0;
}

/* 0: the walk's numbers, as far as is known. */
static uint64_t noted_hash(const char *dir, const char *digest)
{
    struct noted notes[VERSIONS_KEPT + 1];
    size_t n = read_notes(dir, notes, VERSIONS_KEPT + 1);
    for (size_t i = 0; i < n; i++)
        if (strcmp(notes[i].digest, digest) == 0)
            return notes[i].hash;
    return 0;
}

static int wanted_hash(struct volume *v, const struct order_spec *spec, uint64_t *ret,
                       struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    *ret = 0;
    if (!spec->list[0])
        return 0;
    if (list_read(&v->sources, v->fetch, spec->list, spec->root, &text, err))
        return -1;
    *ret = hash64(text.data, text.len, 0);
    return 0;
}

int numbering_check(struct volume *v, struct catalog *c, bool *ret, struct err *err)
{
    struct order_spec spec = {0};
    {
        ACQUIRE(&v->lock);
        if (v->has_spec)
            spec = v->spec;
    }
    uint64_t want;
    if (wanted_hash(v, &spec, &want, err))
        return -1;
    *ret = noted_hash(v->conf.dir, catalog_info(c)->digest) == want;
    return 0;
}

static int check_served(struct volume *v, bool *ret, struct err *err)
{
    struct catalog *c = volume_catalog(v);
    int rc = numbering_check(v, c, ret, err);
    catalog_unref(c);
    return rc;
}

int number_anew(struct volume *v, struct err *err)
{
    bool right;
    int rc = check_served(v, &right, err);
    if (rc || right)
        return rc;
    if (version_is_pinned(v))
        return err_set(err, ERR_USAGE,
                       "a version is pinned, which is numbered otherwise than by the list= given "
                       "(set version= first)");
    if (volume_rescan(v, NULL, err))
        return -1;
    if (!follow_is_on(v)) /* else what was found is served only if they serve it */
        return 0;
    rc = check_served(v, &right, err);
    return rc || right ? rc
                       : err_set(err, ERR_USAGE,
                                 "the servers of the set serve a version that is numbered "
                                 "otherwise than by the list= given (set the sampler there first)");
}

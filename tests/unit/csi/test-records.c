/* Records of other versions: an older one's are taken over, a newer one's and damaged ones are left
 * as they are, and nothing is done to what they speak of. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "catalogs.h"
#include "mem.h"
#include "node-internal.h"
#include "state.h"
#include "world.h"

static char *record_of(const struct world *w, const char *folder, const char *id)
{
    char name[STATE_NAME_BYTES];
    state_name(id, name);
    return xasprintf("%s/%s/%s.json", w->state, folder, name);
}

static void put(const struct world *w, const char *folder, const char *id, const char *text)
{
    cleanup_free char *path = record_of(w, folder, id);
    cr_assert(file_write_whole(path, text, strlen(text), 0600, NULL) == 0);
}

static bool is_there(const struct world *w, const char *folder, const char *id, const char *text)
{
    cleanup_free char *path = record_of(w, folder, id);
    cleanup_bytes struct bytes have = {0};
    return file_read_whole(path, 1 << 16, &have, NULL) == 0 && strcmp(have.data, text) == 0;
}

static void restart(struct world *w)
{
    world_close(w);
    world_open(w);
}

/* As the first version wrote them: no format, no pods, nothing deferred. */
static const char old_volume[] =
    "{\"id\":\"v\",\"set\":\"%s\",\"staging\":\"%s\",\"options\":\"uri=s3://b/set\\n\","
    "\"writable\":false,\"ephemeral\":false,\"targets\":[{\"path\":\"%s\",\"read_only\":true}]}";
static const char old_claim[] =
    "{\"id\":\"c\",\"name\":\"c\",\"options\":\"uri=file://%s/claims/c\\nwritable=true\\n\","
    "\"capacity\":0,\"prefix\":\"file://%s/claims/c\",\"token\":\"0123\",\"source\":\"\","
    "\"made_at\":7}";
static const char old_snapshot[] =
    "{\"id\":\"s\",\"name\":\"s\",\"options\":\"uri=file://%s/set\\ncatalogs=file://%s/set\\n"
    "version=%064d\\n\",\"capacity\":5,\"prefix\":\"\",\"token\":\"\",\"source\":\"v\",\"made_at\":"
    "7}";

Test(records, an_older_volume_is_adopted)
{
    struct world w;
    world_with_pod(&w, NULL);
    /* The key of its set, from what this version wrote. */
    cleanup_free char *path = record_of(&w, "volumes", "v");
    cleanup_bytes struct bytes text = {0};
    cr_assert(file_read_whole(path, 1 << 16, &text, NULL) == 0);
    const char *set = strstr(text.data, "\"set\":\"") + 7;
    cleanup_free char *key = xstrndup(set, STATE_NAME_BYTES - 1);
    cleanup_free char *old = xasprintf(old_volume, key, w.staging, w.target);
    put(&w, "volumes", "v", old);
    restart(&w);
    cr_assert(do_publish(&w, "v", w.target, true, NULL) == RPC_OK, "%s", w.err.msg);
    cr_assert(w.fake->mounted == 1, "it was mounted again");
    cr_assert(do_unpublish(&w, "v", w.target) == RPC_OK && do_unstage(&w, "v") == RPC_OK);
    cr_assert(fake_count(w.fake) == 0 && world_records(&w) == 0);
    world_remove(&w);
}

static char *replaced(const char *text, const char *what, const char *with)
{
    const char *at = strstr(text, what);
    cr_assert(at, "%s in %s", what, text);
    return xasprintf("%.*s%s%s", (int)(at - text), text, with, at + strlen(what));
}

/* Volumes that are written had them, for nothing, and are refused with them now. */
Test(records, an_older_written_volume_goes_on_without_peers)
{
    struct world w;
    world_with_volume(&w, NULL);
    size_t n;
    char **keys = sets_keys(w.node, &n);
    cleanup_free char *volume = record_of(&w, "volumes", "v");
    cleanup_free char *set = record_of(&w, "sets", keys[0]);
    cleanup_bytes struct bytes of_volume = {0}, of_set = {0};
    cr_assert(file_read_whole(volume, 1 << 16, &of_volume, NULL) == 0);
    cr_assert(file_read_whole(set, 1 << 16, &of_set, NULL) == 0);
    cleanup_free char *asked = replaced(of_volume.data, "uri=s3://b/set\\n",
                                        "uri=s3://b/set\\npeers=http://p\\nwritable=true\\n");
    cleanup_free char *written = replaced(asked, "\"writable\":false", "\"writable\":true");
    cleanup_free char *words =
        replaced(of_set.data, "\"words\":[", "\"words\":[\"--peers\",\"http://p\",\"--writable\",");
    put(&w, "volumes", "v", written);
    put(&w, "sets", keys[0], words);
    world_close(&w);
    fake_lose(w.fake);
    world_open(&w);
    node_heal(w.node);
    cr_expect(strstr(w.fake->words, "--writable"), "%s", w.fake->words);
    cr_expect(!strstr(w.fake->words, "http://p"), "%s", w.fake->words);
    cr_expect(do_publish(&w, "v", w.target, false, NULL) == RPC_OK, "%s", w.err.msg);
    ids_free(keys, n);
    world_remove(&w);
}

/* Sets that are written had one, which they refuse now. */
Test(records, an_older_written_set_is_mounted_without_a_token)
{
    struct world w;
    world_with_pod(&w, NULL);
    size_t n;
    char **keys = sets_keys(w.node, &n);
    cr_assert(n == 1);
    cleanup_free char *path = record_of(&w, "sets", keys[0]);
    cleanup_bytes struct bytes text = {0};
    cr_assert(file_read_whole(path, 1 << 16, &text, NULL) == 0);
    cleanup_free char *tokened = replaced(text.data, "\"tokened\":false", "\"tokened\":true");
    cleanup_free char *written = replaced(tokened, "\"words\":[", "\"words\":[\"--writable\",");
    for (int i = 0; i < 2; i++) {
        put(&w, "sets", keys[0], i ? written : tokened);
        world_close(&w);
        fake_lose(w.fake);
        world_open(&w);
        node_heal(w.node);
        bool given = strstr(w.fake->words, "--peer-token-file");
        cr_expect(given == (i == 0), "%s", w.fake->words);
    }
    ids_free(keys, n);
    world_remove(&w);
}

Test(records, an_older_claim_and_snapshot_go_with_what_was_theirs)
{
    struct world w;
    world_make(&w);
    cleanup_free char *claim = xasprintf(old_claim, w.store, w.store);
    cleanup_free char *snapshot = xasprintf(old_snapshot, w.store, w.store, 1);
    cleanup_free char *folder = xasprintf("%s/claims", w.store);
    cleanup_free char *prefix = xasprintf("%s/c", folder);
    cleanup_free char *marks = xasprintf("%s/.sampan-volumes", folder);
    cleanup_free char *mark = xasprintf("%s/c.json", marks);
    static const char text[] =
        "{\"driver\":\"csi.sampan.io\",\"volume\":\"c\",\"token\":\"0123\"}\n";
    put(&w, "created", "c", claim);
    put(&w, "snapshots", "s", snapshot);
    cr_assert(mkdir(folder, 0755) == 0 && mkdir(marks, 0755) == 0 && mkdir(prefix, 0755) == 0);
    cr_assert(file_write_whole(mark, text, sizeof text - 1, 0644, NULL) == 0);
    restart(&w);
    cr_assert(world_volumes(&w) == 1 && world_snapshots(&w) == 1);
    cr_assert(do_delete(&w, "c") == RPC_OK, "%s", w.err.msg);
    cr_assert(access(prefix, F_OK) && access(mark, F_OK), "prefix or mark stayed");
    /* Its catalogs lay in a folder that others use, too. */
    cleanup_free char *set = xasprintf("%s/set", w.store);
    cr_assert(do_delete_snapshot(&w, "s") == RPC_OK && access(set, F_OK) == 0);
    cr_assert(world_records(&w) == 0);
    world_remove(&w);
}

static const char *const strange[] = {
    "{\"format\":2,\"id\":\"v\",\"set\":\"\",\"staging\":\"\",\"options\":\"\",\"writable\":false,"
    "\"ephemeral\":false,\"targets\":[],\"name\":\"v\",\"capacity\":0,\"prefix\":\"\",\"token\":"
    "\"\","
    "\"source\":\"\",\"made_at\":0}",
    "{\"id\":\"v\",\"set\":7}",
    "{\"id\":\"other\",\"set\":\"\"}",
    "{\"id\":\"v\"",
    "",
};
#define N_STRANGE (sizeof strange / sizeof strange[0])

static void expect_refusal(const struct world *w, enum rpc_code code, const char *what, size_t i)
{
    cr_assert(code == RPC_FAILED_PRECONDITION && strstr(w->err.msg, "move the file away"),
              "record %zu: %s: %s: %s", i, what, rpc_code_name(code), w->err.msg);
}

Test(records, a_strange_volume_is_refused_and_its_set_stays)
{
    for (size_t i = 0; i < N_STRANGE; i++) {
        struct world w;
        world_with_pod(&w, NULL);
        put(&w, "volumes", "v", strange[i]);
        restart(&w);
        node_heal(w.node);
        expect_refusal(&w, do_stage(&w, "v", NULL), "stage", i);
        expect_refusal(&w, do_publish(&w, "v", w.target, true, NULL), "publish", i);
        expect_refusal(&w, do_unpublish(&w, "v", w.target), "unpublish", i);
        expect_refusal(&w, do_unstage(&w, "v"), "unstage", i);
        cr_assert(fake_count(w.fake) == 2 && w.fake->unmounted == 0, "record %zu: mounts went", i);
        cr_assert(is_there(&w, "volumes", "v", strange[i]), "record %zu was changed", i);
        /* Another volume of the set comes and goes. */
        cr_assert(do_inline(&w, "other", w.target2) == RPC_OK, "%s", w.err.msg);
        cr_assert(do_unpublish(&w, "other", w.target2) == RPC_OK && w.fake->unmounted == 0);
        /* Moved away: it is as if nobody had known the volume. */
        cleanup_free char *path = record_of(&w, "volumes", "v");
        cr_assert(unlink(path) == 0);
        cr_assert(do_unpublish(&w, "v", w.target) == RPC_OK && do_unstage(&w, "v") == RPC_OK);
        node_heal(w.node);
        cr_assert(fake_count(w.fake) == 0 && world_records(&w) == 0, "record %zu: %zu mounts", i,
                  fake_count(w.fake));
        world_remove(&w);
    }
}

Test(records, a_strange_set_is_refused_and_stays)
{
    struct world w;
    world_with_volume(&w, NULL);
    cleanup_free char *path = record_of(&w, "volumes", "v");
    cleanup_bytes struct bytes text = {0};
    cr_assert(file_read_whole(path, 1 << 16, &text, NULL) == 0);
    cleanup_free char *key = xstrndup(strstr(text.data, "\"set\":\"") + 7, STATE_NAME_BYTES - 1);
    put(&w, "sets", key, strange[0]);
    restart(&w);
    node_heal(w.node);
    expect_refusal(&w, do_publish(&w, "v", w.target, true, NULL), "publish", 0);
    expect_refusal(&w, do_inline(&w, "other", w.target2), "inline", 0);
    cr_assert(w.fake->unmounted == 0 && w.fake->mounted == 1);
    cr_assert(is_there(&w, "sets", key, strange[0]));
    world_remove(&w);
}

Test(records, a_strange_claim_is_refused_and_its_prefix_stays)
{
    for (size_t i = 0; i < N_STRANGE; i++) {
        struct world w;
        world_make(&w);
        cr_assert(do_create_claim(&w, "v") == RPC_OK, "%s", w.err.msg);
        put(&w, "created", "v", strange[i]);
        restart(&w);
        expect_refusal(&w, do_create_claim(&w, "v"), "create", i);
        expect_refusal(&w, do_delete(&w, "v"), "delete", i);
        cleanup_free char *prefix = xasprintf("%s/claims/v", w.store);
        cr_assert(access(prefix, F_OK) == 0, "record %zu: the prefix went", i);
        cr_assert(is_there(&w, "created", "v", strange[i]), "record %zu was changed", i);
        cr_assert(world_volumes(&w) == 0);
        world_remove(&w);
    }
}

static int take_any(void *arg, const struct json *record, struct err *err)
{
    (void)record;
    (void)err;
    ++*(int *)arg;
    return 0;
}

static void fill_record(struct bytes *out, const char *id, size_t total)
{
    struct json_writer w;
    bytes_clear(out);
    state_begin(&w, out, id);
    cleanup_free char *text = xcalloc(total, 1);
    memset(text, 'x', total - out->len - strlen(",\"t\":\"\"}"));
    jw_str(&w, "t", text);
    jw_end(&w);
    cr_assert(out->len == total, "%zu", out->len);
}

Test(records, one_that_could_not_be_read_is_not_written)
{
    const size_t most = 1u << 20;
    struct world w;
    struct err err = {0};
    int n = 0;
    world_make(&w);
    struct state_dir d;
    cleanup_bytes struct bytes text = {0};
    cr_assert(state_open(&d, w.top, "records", &err) == 0);
    fill_record(&text, "v", most);
    cr_assert(state_write(&d, "v", &text, &err) == 0, "%s", err.msg);
    fill_record(&text, "v", most + 1);
    cr_assert(state_write(&d, "v", &text, &err) != 0 && err.class == ERR_LIMIT);
    cr_assert(strstr(err.msg, "1048577 bytes"), "%s", err.msg);
    cr_assert(state_walk(&d, take_any, &n, NULL, &err) == 0 && n == 1 && !state_has_strange(&d));
    state_close(&d);
    world_remove(&w);
}

/* In the place of the library's: the n-th entry cannot be read. */
static int fails_in;

struct dirent *readdir(DIR *d)
{
    struct dirent *(*real)(DIR *); /* not kept: several threads come here */
    *(void **)&real = dlsym(RTLD_NEXT, "readdir");
    if (fails_in == 0 || --fails_in > 0)
        return real(d);
    errno = EIO;
    return NULL;
}

static int count_one(void *arg, const struct json *record, struct err *err)
{
    (void)record;
    (void)err;
    ++*(int *)arg;
    return 0;
}

/* Else the sets of volumes that were not seen would be taken for unused ones, and end. */
Test(records, a_folder_that_cannot_be_read_to_its_end)
{
    struct world w;
    struct state_dir d;
    struct err err = {0};
    int n, failed = 0;
    world_make(&w);
    cr_assert(do_stage(&w, "v", NULL) == RPC_OK && do_stage(&w, "v2", NULL) == RPC_OK);
    cr_assert(state_open(&d, w.state, "volumes", &err) == 0);
    for (int at = 1;; at++, failed++) {
        n = 0;
        err = (struct err){0};
        fails_in = at;
        int rc = state_walk(&d, count_one, &n, NULL, &err);
        if (fails_in) /* so many entries are not there */
            break;
        cr_assert(rc == -1 && strstr(err.msg, "Input/output error"), "entry %d: %s", at, err.msg);
    }
    fails_in = 0;
    cr_expect(n == 2 && failed >= n, "%d of 2 records, %d failures", n, failed);
    state_close(&d);
    world_remove(&w);
}

/* In the place of the library's: the folder that this thread synced last. */
static _Thread_local char synced[4096];

int fsync(int fd)
{
    char link[32];
    struct stat st;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n =
        fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) ? readlink(link, synced, sizeof synced - 1) : 0;
    if (n > 0)
        synced[n] = '\0';
    return fdatasync(fd);
}

/* A record that a power cut brings back would be mounted again. */
Test(records, what_is_removed_or_renamed_is_so_on_the_disk)
{
    struct world w;
    struct err err = {0};
    struct catalog_made made = {.version = "5eed"};
    struct state_dir d;
    struct json_writer json;
    cleanup_bytes struct bytes text = {0};
    const struct attributes none = {0};
    world_make(&w);
    cr_assert(state_open(&d, w.state, "records", &err) == 0);
    state_begin(&json, &text, "r");
    jw_end(&json);
    cr_assert(state_write(&d, "r", &text, &err) == 0);
    synced[0] = '\0';
    cr_assert(state_remove(&d, "r", &err) == 0);
    cr_expect(strcmp(synced, d.path) == 0, "%s", synced);
    state_close(&d);
    cleanup_free char *folder = xasprintf("%s/catalogs", w.state);
    cr_assert(folder_make(folder, &err) == 0);
    made.file = xasprintf("%s/.new-1", folder);
    cr_assert(file_write_whole(made.file, "rows", 4, 0600, &err) == 0);
    synced[0] = '\0';
    cr_assert(catalog_keep(NULL, w.state, &none, NULL, 0, &made, &err) == 0, "%s", err.msg);
    cr_expect(strcmp(synced, folder) == 0, "%s", synced);
    catalog_made_release(&made);
    world_remove(&w);
}

/* In the place of the library's: what ends so cannot be read. */
static const char *barred;

int open(const char *path, int flags, ...)
{
    size_t len = strlen(path), n = barred ? strlen(barred) : 0;
    if (n && len > n && strcmp(path + len - n, barred) == 0 && (flags & O_ACCMODE) == O_RDONLY) {
        errno = EMFILE;
        return -1;
    }
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return openat(AT_FDCWD, path, flags, mode);
}

/* Else an empty claim would be given up without its mark, which would stay for ever. */
Test(records, a_mark_that_cannot_be_read_is_not_missing)
{
    struct world w;
    world_make(&w);
    cr_assert(do_create_claim(&w, "c") == RPC_OK, "%s", w.err.msg);
    cleanup_free char *mark = xasprintf("%s/claims/.sampan-volumes/c.json", w.store);
    cr_assert(access(mark, F_OK) == 0, "%s", mark);
    barred = "/mark/c.json";
    cr_expect(do_delete(&w, "c") == RPC_RESOURCE_EXHAUSTED, "%s", w.err.msg);
    cr_expect(access(mark, F_OK) == 0);
    barred = NULL;
    cr_expect(do_delete(&w, "c") == RPC_OK, "%s", w.err.msg);
    cr_expect(access(mark, F_OK) != 0);
    world_remove(&w);
}

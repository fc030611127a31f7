/* Pages of folders made ahead: given to who asks for exactly that page of that version, once. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake-volume.h"
#include "frontend-internal.h"
#include "mem.h"

static struct page page_of(uint64_t folder, uint64_t offset, const char *text)
{
    struct page p = {.folder = folder, .offset = offset, .size = 4096, .plus = true};

    p.buf = xstrdup(text);
    p.used = strlen(text);
    memcpy(p.version, "v1", sizeof("v1"));
    return p;
}

static void put(struct pages *p, uint64_t folder, uint64_t offset, const char *text)
{
    struct page page = page_of(folder, offset, text);

    pages_put(p, &page);
}

/* The text of the page that is given, or NULL. The caller frees it. */
static char *take(struct pages *p, const char *version, struct page want)
{
    if (pages_take(p, version, &want))
        return want.buf;
    free(want.buf);
    return NULL;
}

Test(pages, gives_a_page_once)
{
    struct pages p = {0};

    pages_init(&p);
    put(&p, 7, 100, "entries");
    char *got = take(&p, "v1", page_of(7, 100, ""));
    cr_assert_str_eq(got, "entries");
    free(got);
    cr_assert_null(take(&p, "v1", page_of(7, 100, "")));
    pages_destroy(&p);
}

Test(pages, gives_no_other_page)
{
    struct pages p = {0};
    struct page other_size = page_of(7, 100, ""), not_plus = page_of(7, 100, "");

    pages_init(&p);
    put(&p, 7, 100, "entries");
    other_size.size = 8192;
    not_plus.plus = false;
    cr_assert_null(take(&p, "v1", page_of(8, 100, "")));
    cr_assert_null(take(&p, "v1", page_of(7, 101, "")));
    cr_assert_null(take(&p, "v1", other_size));
    cr_assert_null(take(&p, "v1", not_plus));
    char *got = take(&p, "v1", page_of(7, 100, ""));
    cr_assert_str_eq(got, "entries");
    free(got);
    pages_destroy(&p);
}

Test(pages, another_version_is_thrown_away)
{
    struct pages p = {0};

    pages_init(&p);
    put(&p, 7, 100, "entries");
    cr_assert_null(take(&p, "v2", page_of(7, 100, "")));
    cr_assert_null(take(&p, "v1", page_of(7, 100, "")));
    pages_destroy(&p);
}

Test(pages, the_oldest_makes_room)
{
    struct pages p = {0};

    pages_init(&p);
    for (uint64_t i = 0; i <= PAGES_AHEAD; i++)
        put(&p, 7 + i, 1, "entries");
    cr_assert_null(take(&p, "v1", page_of(7, 1, "")));
    for (uint64_t i = 1; i <= PAGES_AHEAD; i++) {
        char *got = take(&p, "v1", page_of(7 + i, 1, ""));
        cr_assert_not_null(got, "page %d", (int)i);
        free(got);
    }
    pages_destroy(&p);
}

/* Where a walk goes after the last page of `path`, of which it saw `first_folder`: a path, or "".
 */
static const char *after(struct catalog *c, const char *path, const char *first_folder, char *out)
{
    struct page last = {.folder = CATALOG_ROOT_ID};
    struct bytes found = {0};
    struct entry e;
    uint64_t next;

    if (*path) {
        cr_assert_eq(catalog_find(c, path, &e, NULL), 0, "%s", path);
        last.folder = e.id;
    }
    if (first_folder && catalog_find(c, first_folder, &e, NULL) == 0)
        last.first_folder = e.id;
    next = pages_next_folder(c, &last);
    if (next)
        cr_assert_eq(catalog_path(c, next, &found, NULL), 0);
    snprintf(out, 256, "%.*s", (int)found.len, found.len ? found.data : "");
    bytes_release(&found);
    return out;
}

Test(pages, a_walk_goes_down_then_beside_then_up)
{
    char top[] = "/tmp/sampan-pages-XXXXXX", pack[64], out[256];
    static const char *const folders[] = {"a", "a/deep", "b", "b/one", "b/one/leaf", "c"};

    cr_assert(mkdtemp(top));
    int dir = open(top, O_RDONLY | O_DIRECTORY);
    for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++)
        cr_assert_eq(mkdirat(dir, folders[i], 0700), 0);
    snprintf(pack, sizeof(pack), "%s.pack", top);
    struct volume *v = fake_volume_new(top, pack);
    struct catalog *c = volume_catalog(v);

    cr_expect_str_eq(after(c, "", "a", out), "a");
    cr_expect_str_eq(after(c, "a", "a/deep", out), "a/deep");
    cr_expect_str_eq(after(c, "a/deep", NULL, out), "b");
    cr_expect_str_eq(after(c, "b/one/leaf", NULL, out), "c", "two levels up");
    cr_expect_str_eq(after(c, "c", NULL, out), "");
    cr_expect_str_eq(after(c, "", NULL, out), "");
    catalog_unref(c);
    fake_volume_free(v);
    for (size_t i = sizeof(folders) / sizeof(*folders); i-- > 0;)
        unlinkat(dir, folders[i], AT_REMOVEDIR);
    close(dir);
    rmdir(top);
    unlink(pack);
}

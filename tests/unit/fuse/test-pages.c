/* Pages of folders made ahead: given to who asks for exactly that page of that version, once. */
#include <criterion/criterion.h>
#include <string.h>

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

#include "golden.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "as-text.h"

const struct operator_config golden_config = {.image = "sampan:1",
                                              .namespace_ = "paddle-system",
                                              .csi_driver = "csi.sampan.io",
                                              .port_from = 35000,
                                              .port_to = 65000};

static void read_all(const char *path, struct bytes *ret)
{
    char part[4096];
    size_t n;
    FILE *f = fopen(path, "re");
    bytes_add(ret, "", 0);
    if (!f)
        return;
    while ((n = fread(part, 1, sizeof part, f)) > 0)
        bytes_add(ret, part, n);
    fclose(f);
}

void golden_compare(const char *name, const char *text)
{
    cleanup_bytes struct bytes want = {0};
    char path[160];
    snprintf(path, sizeof path, "tests/unit/operator/golden/%s.txt", name);
    if (getenv("SAMPAN_WRITE_GOLDEN")) {
        FILE *f = fopen(path, "we");
        cr_assert(f && fputs(text, f) >= 0 && !fclose(f), "%s", path);
    }
    read_all(path, &want);
    cr_assert_str_eq(text, want.data, "%s: want\n%s\ngot\n%s", path, want.data, text);
}

void golden_check(const struct controller *c, const struct operator_config *config,
                  const char *name, const char *text)
{
    cleanup_bytes struct bytes got = {0};
    struct actions out = {0};
    struct view *v;
    struct err err = {0};
    cr_assert_eq(view_of_text(&v, text, &err), 0, "%s: %s\n%s", name, err.msg, text);
    cr_assert_eq(c->decide(v, config, &out, &err), 0, "%s: %s", name, err.msg);
    cr_assert(!view_incomplete(v), "%s", name);
    bytes_add(&got, "", 0);
    actions_text(&out, &got);
    golden_compare(name, got.data);
    actions_release(&out);
    view_free(v);
}

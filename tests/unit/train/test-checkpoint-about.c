/* Checkpoints: how their nets were built, and what their classes were called. */
#include <limits.h>

#include "saved.h"

Test(checkpoint, how_the_net_was_built)
{
    struct world w;
    char ant[] = "ant", bee[] = "bee", cafe[] = "caf\303\251 \"c\"";
    char *classes[] = {ant, bee, cafe};
    const struct checkpoint c = {.pass = 2};
    const struct checkpoint_about about = {
        .shape = {.h = 4, .w = 5, .c = 3, .classes = 3, .hidden = 8, .rows = {7, [6] = 9}},
        .classes = classes,
        .n_classes = 3};
    struct checkpoint_about got;
    struct err err = {0};
    char *place = NULL;
    setup(&w);
    fill(w.n, 1);
    cr_assert_eq(checkpoint_save(w.dir, w.n, &c, &about, 0, NULL, 0, &err), 0, "%s", err.msg);
    cr_assert_eq(checkpoint_look(w.dir, 0, &got, &place, &err), 0, "%s", err.msg);
    cr_expect_str_eq(strrchr(place, '/'), "/pass-00001");
    cr_expect_str_eq(got.model, "mlp");
    cr_expect(got.shape.h == 4 && got.shape.w == 5 && got.shape.c == 3 && got.shape.hidden == 8);
    cr_expect(got.shape.classes == 3 && got.shape.rows[0] == 7 && got.shape.rows[6] == 9);
    cr_expect_not(got.mean);
    cr_assert_eq(got.n_classes, 3);
    cr_expect_str_eq(got.classes[2], classes[2]);
    checkpoint_about_release(&got);
    free(place);
    place = NULL;
    save(&w, 3, 0, 1); /* the newest has nothing of that */
    cr_expect_eq(checkpoint_look(w.dir, 0, &got, &place, &err), -1);
    cr_expect_eq(err.class, ERR_USAGE);
    cr_expect(strstr(err.msg, "pass-00002") && strstr(err.msg, "an older program"), "%s", err.msg);
    cr_expect_str_eq(strrchr(place, '/'), "/pass-00002");
    free(place);
    err = (struct err){0};
    cr_assert_eq(checkpoint_look(w.dir, 1, &got, &place, &err), 0, "%s", err.msg);
    cr_expect_str_eq(strrchr(place, '/'), "/pass-00001");
    checkpoint_about_release(&got);
    free(place);
    cr_expect_eq(checkpoint_look(w.dir, 2, &got, &place, &err), -1);
    cr_expect(!place && err.class == ERR_NOT_FOUND, "%s", err.msg);
    teardown(&w);
}

/* No larger than what can be trained: sizes that are multiplied stay numbers. */
Test(checkpoint, of_a_shape_that_no_training_has)
{
    static const struct {
        struct model_shape shape;
        const char *want;
    } rows[] = {
        {{.h = INT_MAX, .w = 5, .c = 3}, "shape.height: want 0 to 4096"},
        {{.h = 4, .w = 4097, .c = 3}, "shape.width: want 0 to 4096"},
        {{.h = 4, .w = 5, .c = 4}, "shape.channels: want 0 to 3"},
        {{.h = 4, .w = 5, .c = 3, .hidden = INT_MAX}, "shape.hidden: want 0 to 1048576"},
    };
    struct world w;
    setup(&w);
    fill(w.n, 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct checkpoint c = {.pass = i + 1};
        const struct checkpoint_about about = {.shape = rows[i].shape};
        struct checkpoint_about got;
        struct err err = {0};
        char *place = NULL;
        cr_assert_eq(checkpoint_save(w.dir, w.n, &c, &about, 0, NULL, 0, &err), 0, "%s", err.msg);
        cr_expect_eq(checkpoint_look(w.dir, 0, &got, &place, &err), -1, "row %zu", i);
        cr_expect(strstr(err.msg, rows[i].want), "row %zu: %s", i, err.msg);
        free(place);
    }
    teardown(&w);
}

/* Labels that meant something else are another model; what has no names cannot differ. */
Test(checkpoint, of_classes_with_other_names)
{
    struct world w;
    char ant[] = "ant", bee[] = "bee", fly[] = "fly", wasp[] = "wasp";
    char *classes[] = {ant, bee, fly}, *others[] = {ant, wasp, fly};
    const struct checkpoint_about own = {.classes = classes, .n_classes = 3},
                                  other = {.classes = others, .n_classes = 3}, unnamed = {0};
    struct checkpoint c = {.pass = 1, .optimizer = "lars"};
    struct err err = {0};
    setup(&w);
    fill(w.n, 1);
    cr_assert_eq(checkpoint_save(w.dir, w.n, &c, &own, 0, NULL, 0, &err), 0, "%s", err.msg);
    cr_expect_eq(checkpoint_load(w.dir, w.n, &own, &c, w.log, &err), 1, "%s", err.msg);
    cr_expect_str_eq(c.optimizer, "lars");
    cr_expect_eq(checkpoint_load(w.dir, w.n, &other, &c, w.log, &err), -1);
    cr_expect_eq(err.class, ERR_USAGE);
    cr_expect(strstr(err.msg, "class 1 of 3 was 'bee', in --data it is 'wasp'"), "%s", err.msg);
    cr_expect(strstr(err.msg, "--accept_classes"), "%s", err.msg);
    cr_expect_eq(checkpoint_load(w.dir, w.n, NULL, &c, w.log, &err), 1, "they are accepted");
    cr_expect_eq(checkpoint_load(w.dir, w.n, &unnamed, &c, w.log, &err), 1, "data without names");
    save(&w, 2, 0, 3); /* has no names */
    cr_expect_eq(checkpoint_load(w.dir, w.n, &other, &c, w.log, &err), 1, "%s", err.msg);
    cr_expect(c.pass == 2 && holds(w.n, 3));
    teardown(&w);
}

/* Folders have names of any bytes; older programs wrote all of them as text. */
Test(checkpoint, of_classes_whose_names_are_no_text)
{
    struct world w;
    char ant[] = "ant", red[] = "rouge\xe9", other[] = "rouge\xe8", cafe[] = "caf\303\251";
    char *classes[] = {ant, red, cafe}, *others[] = {ant, other, cafe};
    const struct checkpoint_about own = {.classes = classes, .n_classes = 3},
                                  foreign = {.classes = others, .n_classes = 3};
    struct checkpoint_about got;
    struct checkpoint c = {.pass = 1};
    struct err err = {0};
    char *place = NULL;
    setup(&w);
    fill(w.n, 1);
    cr_assert_eq(checkpoint_save(w.dir, w.n, &c, &own, 0, NULL, 0, &err), 0, "%s", err.msg);
    cr_expect_eq(checkpoint_load(w.dir, w.n, &own, &c, w.log, &err), 1, "its own: %s", err.msg);
    cr_expect_eq(checkpoint_load(w.dir, w.n, &foreign, &c, w.log, &err), -1);
    cr_expect(strstr(err.msg, "class 1 of 3 was 'rouge\xe9', in --data it is 'rouge\xe8'"), "%s",
              err.msg);
    cr_assert_eq(checkpoint_look(w.dir, 0, &got, &place, &err), 0, "%s", err.msg);
    cr_expect_str_eq(got.classes[1], red);
    cr_expect_str_eq(got.classes[2], cafe);
    checkpoint_about_release(&got);
    free(place);
    teardown(&w);
}

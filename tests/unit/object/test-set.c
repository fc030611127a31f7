/* Set files and SET arguments. */
#include <sys/stat.h>

#include "object-testing.h"

Test(set, files)
{
    static const struct {
        const char *json, *out, *error;
    } rows[] = {
        {"{\"sources\":[{\"uri\":\"s3://a/x\",\"at\":\"train/\"},{\"uri\":\"file:///y\"}]}",
         "s3://a/x@train/ file:///y@ ", NULL},
        {"{\"sources\":[{\"uri\":\"s3://a\",\"at\":\"/a/b\"}]}", "s3://a@a/b/ ", NULL},
        {"{\"sources\":[]}", "", "0 sources"},
        {"{}", "", "want an array"},
        {"[]", "", "want an object"},
        {"{\"sources\":[{\"at\":\"x\"}]}", "", "uri"},
        {"{\"sources\":[{\"uri\":\"s3://a\",\"at\":\"../x\"}]}", "", "not a place in the set"},
        {"{\"sources\":[{\"uri\":\"s3://a\",\"at\":\"a//b\"}]}", "", "not a place in the set"},
        {"{\"sources\":[{\"uri\":\"s3://AK:SECRET@a\"}]}", "",
         "a password in an address is refused"},
        {"{\"sources\":[{\"uri\":\"plain\"}]}", "", "must begin with"},
        {"{\"sources\":[{\"uri\":\"s3://a\",\"to\":\"x\"}]}", "", "to"},
        {"{\"sources\":[{\"uri\":\"s3://a\"}", "", "not JSON"},
        {"", "", "not JSON"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct set set = {0};
        struct err err = {0};
        int result = set_parse(&set, "set.json", rows[i].json, strlen(rows[i].json), &err);
        cr_expect_eq(result, rows[i].error ? -1 : 0, "row %zu: %s", i, err.msg);
        cleanup_bytes struct bytes out = {0};
        for (size_t k = 0; k < set.n; k++)
            bytes_addf(&out, "%s@%s ", set.sources[k].uri, set.sources[k].at);
        cr_expect_str_eq(text_of(&out), rows[i].out);
        if (rows[i].error)
            cr_expect_not_null(strstr(err.msg, rows[i].error), "row %zu: %s", i, err.msg);
        cr_expect_null(strstr(err.msg, "SECRET"));
        set_release(&set);
    }
}

Test(set, arguments)
{
    char dir[] = "/tmp/object-set-XXXXXX";
    cr_assert_not_null(mkdtemp(dir));
    struct set set = {0};
    struct err err = {0};
    cr_assert_eq(set_from_arg(&set, "minio://h:1/b/", &err), 0);
    cr_expect_str_eq(set.sources[0].uri, "minio://h:1/b/");
    set_release(&set);
    cr_assert_eq(set_from_arg(&set, dir, &err), 0);
    cr_expect_eq(strncmp(set.sources[0].uri, "file:///", 8), 0);
    set_release(&set);
    cleanup_free char *path = xasprintf("%s/set.json", dir);
    FILE *f = fopen(path, "w");
    fputs("{\"sources\":[{\"uri\":\"bos://b/\"}]}", f);
    fclose(f);
    cr_assert_eq(set_from_arg(&set, path, &err), 0);
    cr_expect_str_eq(set.sources[0].uri, "bos://b/");
    set_release(&set);
    unlink(path);
    cr_expect_eq(set_from_arg(&set, path, &err), -1);
    cr_expect_eq(err.class, ERR_NOT_FOUND);
    rmdir(dir);
}

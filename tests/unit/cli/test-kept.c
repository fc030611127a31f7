/* The options of a mount, as words that every process that serves it takes up. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mem.h"
#include "serve-internal.h"

/* Parses as `sampan mount` does, keeps, and takes up again where all else has changed. */
static void keep(char *const *argv, int argc, struct kept *ret, struct bytes *text)
{
    struct err err = {0};
    struct conf *c;
    cleanup_free void *options = xcalloc(1, cmd_mount.options_size);
    cleanup_owner struct owner owner = {0};
    struct store_conf store;
    cr_assert_eq(command_parse(&cmd_mount, &c, options, argc, argv, &err), 0, "%s", err.msg);
    const struct mount_options *o = options;
    struct serve_conf conf = {.options = o, .set = conf_arg(c, 0), .mountpoint = "/mnt/a b"};
    store_conf_of(&o->store, &store);
    cr_assert_eq(owner_resolve(&owner, conf.set, &o->set, &store, &err), 0, "%s", err.msg);
    conf.owner = &owner;
    kept_text(c, &conf, text);
    conf_free(c);
    setenv("SAMPAN_MEMORY", "999MiB", 1);
    setenv("SAMPAN_CONFIG", "/nowhere", 1);
    cr_assert_eq(chdir("/"), 0);
    cr_assert_eq(kept_parse(ret, text->data, &err), 0, "%s", err.msg);
    unsetenv("SAMPAN_MEMORY");
    unsetenv("SAMPAN_CONFIG");
}

#define WORDS(...)                                               \
    char *const argv[] = {(char[]){"mount"}, __VA_ARGS__, NULL}; \
    int argc = (int)(sizeof argv / sizeof argv[0]) - 1

Test(kept, options_come_back_as_they_were_whatever_the_environment_says_now)
{
    WORDS((char[]){"file:///data"}, (char[]){"mnt"}, (char[]){"--cache"}, (char[]){"mem:/x=1GiB"},
          (char[]){"--cache"}, (char[]){"ssd:/tmp/a\nb\\c=5GB"}, (char[]){"--memory=100MiB"},
          (char[]){"--refresh=90s"}, (char[]){"--no-hedge"}, (char[]){"--uid=7"},
          (char[]){"--ca-file"}, (char[]){"rel/ca.pem"}, (char[]){"--sampler="});
    struct kept k;
    struct bytes text = {0};
    char cwd[4096];
    cr_assert_not_null(getcwd(cwd, sizeof cwd));
    keep(argv, argc, &k, &text);
    cleanup_free char *ca = xasprintf("%s/rel/ca.pem", cwd);
    cr_expect_eq(k.options.memory, 100u << 20);
    cr_expect_eq(k.options.refresh, 90000000000u);
    cr_expect(k.options.no_hedge);
    cr_expect_not(k.options.foreground);
    cr_expect_eq(k.options.uid, 7);
    cr_expect_eq(k.options.gid, -1);
    cr_expect_str_eq(k.options.store.ca_file, ca);
    cr_expect_str_eq(k.options.sampler, "");
    cr_expect_null(k.options.catalog);
    cr_expect_eq(k.options.set.cache.n, 2);
    cr_expect_str_eq(k.options.set.cache.items[0], "mem:/x=1073741824");
    cr_expect_str_eq(k.options.set.cache.items[1], "ssd:/tmp/a\nb\\c=5000000000");
    cr_expect_str_eq(conf_arg(k.conf, 0), "file:///data");
    cr_expect_str_eq(conf_arg(k.conf, 1), "/mnt/a b");
    cr_expect_str_eq(conf_arg(k.conf, 2), "/tmp/a\nb\\c");
    kept_release(&k);
    bytes_release(&text);
}

/* A folder named after the set depends on its credentials: it is kept, not found again. */
Test(kept, the_owners_folder_is_kept_as_it_was_found)
{
    WORDS((char[]){"file:///data"}, (char[]){"mnt"}, (char[]){"--cache-dir=/tmp/base"});
    struct kept k;
    struct bytes text = {0};
    struct err err = {0};
    keep(argv, argc, &k, &text);
    cleanup_owner struct owner owner = {0};
    cr_assert_eq(owner_given(&owner, conf_arg(k.conf, 2), &k.options.set, &err), 0, "%s", err.msg);
    cr_expect_eq(strncmp(owner.dir, "/tmp/base/file-data-", 20), 0, "%s", owner.dir);
    cr_expect_eq(owner.n_tiers, 1);
    cr_expect_str_eq(owner.tiers[0].dir, owner.dir);
    kept_release(&k);
    bytes_release(&text);
}

Test(kept, a_text_that_is_not_whole_is_refused)
{
    static const char *const texts[] = {"", "--memory=1GiB\n--\nset\nmnt\n",
                                        "--memory=nonsense\n--\nset\nmnt\ndir\n",
                                        "--no-such=1\n--\nset\nmnt\ndir\n"};
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct kept k;
        struct err err = {0};
        cr_expect_eq(kept_parse(&k, texts[i], &err), -1, "%s", texts[i]);
        kept_release(&k);
    }
}

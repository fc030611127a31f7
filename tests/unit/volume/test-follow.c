/* A volume goes where the servers of its set are: what it hears of them is told here. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "mem.h"
#include "support.h"
#include "volume-internal.h"

struct followed {
    struct world w;
    struct volume_conf conf;
    struct volume *v;
    struct digest first, second;
    const char *want; /* of is_served() */
    bool pinned;
};

static bool is_served(void *arg)
{
    const struct followed *f = arg;
    return strcmp(served(f->v).text, f->want) == 0 &&
           status_has(f->v, "\"pinned\":true") == f->pinned;
}

static void goes(struct followed *f, const struct digest *to, bool pinned)
{
    follow_heard(f->v, to->text, pinned);
    f->want = to->text;
    f->pinned = pinned;
    wait_until(is_served, f, to->text);
}

static struct digest scan(struct volume *v)
{
    struct err err = {0};
    struct rescan found;
    struct digest d;
    cr_assert_eq(volume_rescan(v, &found, &err), 0, "%s", err.msg);
    memcpy(d.text, found.found.digest, sizeof d.text);
    return d;
}

static void begin(struct followed *f)
{
    *f = (struct followed){0};
    world_new(&f->w);
    world_conf(&f->w, &f->conf);
    put_file(&f->w, "a/1.jpg", 1000, 1);
    put_file(&f->w, "a/2.jpg", 2000, 2);
    f->v = world_open(&f->conf);
    f->first = served(f->v);
    check_file(f->v, "a/1.jpg", 1000, 1);
    put_file(&f->w, "a/1.jpg", 1500, 11);
    f->second = scan(f->v);
    cr_assert_str_neq(f->first.text, f->second.text);
}

static void end(struct followed *f)
{
    volume_close(f->v);
    world_free(&f->w);
}

Test(follow, on_and_back_pinned_and_not)
{
    struct followed f;
    begin(&f);
    cr_expect(follow_wants(f.v));
    cr_expect(status_has(f.v, "\"follows\":false"));
    goes(&f, &f.first, true);
    cr_expect(status_has(f.v, "\"follows\":true,\"follows_why\":\"\""));
    check_file(f.v, "a/1.jpg", 1000, 1);
    goes(&f, &f.first, false);
    goes(&f, &f.second, false);
    check_file(f.v, "a/1.jpg", 1500, 11);
    goes(&f, &f.second, true);
    goes(&f, &f.first, true);
    volume_close(f.v);
    f.v = world_open(&f.conf); /* nothing was heard yet: it is where it was */
    cr_expect(is_served(&f));
    end(&f);
}

Test(follow, what_it_finds_itself_is_kept_and_not_served)
{
    struct followed f;
    struct err err = {0};
    begin(&f);
    goes(&f, &f.second, false);
    put_file(&f.w, "a/3.jpg", 3000, 3);
    struct digest third = scan(f.v);
    cr_expect_str_eq(served(f.v).text, f.second.text);
    cr_expect(status_has(f.v, third.text));
    cr_expect_eq(volume_set_version(f.v, third.text, &err), -1);
    cr_expect_eq(err.class, ERR_USAGE, "%s", err.msg);
    goes(&f, &third, false);
    check_file(f.v, "a/3.jpg", 3000, 3);
    end(&f);
}

/* What its numbers belong to would not be served, and an order be one of other samples. */
Test(follow, a_list_that_numbers_no_served_version_gives_no_order)
{
    struct followed f;
    struct err err = {0};
    begin(&f);
    put_text(&f.w, "../list.txt", "a/2.jpg\na/1.jpg\n");
    cleanup_free char *by_list = xasprintf("sequence,list=%s/list.txt", f.w.root);
    goes(&f, &f.second, false);
    cr_expect_eq(volume_set_sampler(f.v, by_list, &err), -1);
    cr_expect(err.class == ERR_USAGE && strstr(err.msg, "numbered otherwise"), "%s", err.msg);
    cr_expect_eq(volume_order_length(f.v, NULL), 0);
    cr_expect_eq(volume_set_sampler(f.v, "sequence", &err), 0, "%s", err.msg);
    cr_assert_eq(volume_set_peers(f.v, "", &err), 0, "%s", err.msg);
    cr_expect_eq(volume_set_sampler(f.v, by_list, &err), 0, "%s", err.msg);
    uint64_t ids[2];
    cr_assert_eq(volume_order_ids(f.v, 0, 2, ids, &err), 0, "%s", err.msg);
    cr_expect_eq(ids[0], id_of(f.v, "a/2.jpg"));
    end(&f);
}

static bool says_why(void *arg)
{
    return !status_has(((struct followed *)arg)->v, "\"follows_why\":\"\"");
}

static bool says_nothing(void *arg)
{
    return !says_why(arg);
}

Test(follow, a_version_that_nobody_has_moves_nobody)
{
    struct followed f;
    struct digest none = {0};
    begin(&f);
    memset(none.text, 'e', CATALOG_DIGEST);
    follow_heard(f.v, none.text, true);
    wait_until(says_why, &f, "why it is not there");
    cr_expect(status_has(f.v, "is not kept here"));
    cr_expect_str_eq(served(f.v).text, f.second.text);
    cr_expect(status_has(f.v, "\"pinned\":false"));
    goes(&f, &f.first, true);
    wait_until(says_nothing, &f, "nothing more to say"); /* it is served a moment earlier */
    end(&f);
}

Test(follow, those_that_are_told_otherwise_follow_nobody)
{
    struct followed f;
    struct err err = {0};
    begin(&f);
    goes(&f, &f.first, true);
    cr_assert_eq(volume_set_peers(f.v, "", &err), 0, "%s", err.msg);
    cr_expect(status_has(f.v, "\"follows\":false"));
    cr_expect_eq(volume_set_version(f.v, "", &err), 0, "%s", err.msg);
    cr_expect_str_eq(served(f.v).text, f.second.text);
    volume_close(f.v);

    f.conf.partition = "0/2";
    f.v = world_open(&f.conf);
    cr_expect_not(follow_wants(f.v), "one with a partition has a server");
    follow_heard(f.v, f.first.text, true);
    cr_expect(status_has(f.v, "\"follows\":false"));
    volume_close(f.v);

    cleanup_free char *file = xasprintf("%s/catalog/%s.catalog", f.w.own, f.second.text);
    f.conf.partition = NULL;
    f.conf.catalog = file;
    f.v = world_open(&f.conf);
    cr_expect_not(follow_wants(f.v), "--catalog says which one");
    cr_expect_str_eq(served(f.v).text, f.second.text);
    end(&f);
}

static void *hears_both(void *arg)
{
    struct followed *f = arg;
    for (int i = 0; i < 200; i++)
        follow_heard(f->v, i % 2 ? f->first.text : f->second.text, i % 3 == 0);
    return NULL;
}

Test(follow, news_while_it_is_on_its_way_and_at_the_end)
{
    struct followed f;
    pthread_t thread;
    begin(&f);
    cr_assert_eq(pthread_create(&thread, NULL, hears_both, &f), 0);
    for (int i = 0; i < 20; i++)
        cr_expect(status_has(f.v, "\"versions\""));
    pthread_join(thread, NULL);
    goes(&f, &f.first, false);
    follow_heard(f.v, f.second.text, true);
    end(&f);
}

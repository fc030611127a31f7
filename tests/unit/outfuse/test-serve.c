#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "kernel.h"
#include "sampan-ioctl.h"

static struct kernel *k;
static struct stage *s;

static void begin(void)
{
    s = fake_stage();
    k = kernel_new(s);
}

static void end(void)
{
    kernel_free(k);
}

TestSuite(serve, .init = begin, .fini = end);

static int write_at(uint64_t ino, uint64_t fh, uint64_t off, const void *data, uint32_t len)
{
    struct wire_write_in in = {.fh = fh, .offset = off, .size = len};

    return kernel_ask(k, WIRE_WRITE, ino, &in, sizeof(in), data, len);
}

Test(serve, negotiation)
{
    struct wire_init_out out;

    memcpy(&out, k->body, sizeof(out)); /* what begin() was answered */
    cr_assert_eq(k->body_len, sizeof(out));
    cr_assert_eq(out.major, 7);
    cr_assert_eq(out.max_write, 1u << 20);
    cr_assert_eq(out.max_pages, 256);
    cr_assert_eq(out.time_gran, 1);
    cr_assert(out.flags & WIRE_ATOMIC_O_TRUNC);
    cr_assert(out.flags & WIRE_PARALLEL_DIROPS);
    cr_assert_not(out.flags & (1u << 16)); /* the write-back cache */
    cr_assert_not(out.flags & (1u << 12)); /* pages dropped by mtime */
}

Test(serve, a_file_is_made_written_and_read)
{
    uint64_t fh;
    uint64_t ino = kernel_create(k, "a", &fh);
    struct wire_read_in in = {.fh = fh, .size = 100};
    struct wire_write_out written;

    cr_assert_eq(write_at(ino, fh, 3, "hello", 5), 0);
    memcpy(&written, k->body, sizeof(written));
    cr_assert_eq(written.size, 5);
    cr_assert_eq(kernel_ask(k, WIRE_READ, ino, &in, sizeof(in), NULL, 0), 0);
    cr_assert_eq(k->body_len, 8);
    cr_assert_eq(memcmp(k->body, "\0\0\0hello", 8), 0);
    struct wire_flush_in flush = {.fh = fh};
    cr_assert_eq(kernel_ask(k, WIRE_FLUSH, ino, &flush, sizeof(flush), NULL, 0), 0);
    struct wire_release_in release = {.fh = fh, .flags = O_RDWR};
    cr_assert_eq(kernel_ask(k, WIRE_RELEASE, ino, &release, sizeof(release), NULL, 0), 0);
    cr_assert_eq(kernel_ask_name(k, WIRE_UNLINK, STAGE_ROOT, NULL, 0, "a"), 0);
    cr_assert_eq(kernel_ask_name(k, WIRE_LOOKUP, STAGE_ROOT, NULL, 0, "a"), -ENOENT);
}

/* The kernel asks for the page once more. */
Test(serve, a_read_that_waited_in_vain_fails_once_more_at_once)
{
    uint64_t fh;
    uint64_t ino = kernel_create(k, "a", &fh);
    struct wire_read_in in = {.fh = fh, .size = 100};
    const struct failed_read failed = {.ino = ino, .size = 4096, .pid = k->pid = 42, .error = EIO};
    uint64_t now = clock_mono_ns();

    again_note(&k->front->again, &failed, now - AGAIN_LONG_NS, now + 600 * NS_PER_S);
    cr_expect_eq(kernel_ask(k, WIRE_READ, ino, &in, sizeof(in), NULL, 0), -EIO);
    cr_expect_eq(kernel_ask(k, WIRE_READ, ino, &in, sizeof(in), NULL, 0), 0);
}

Test(serve, attributes_and_how_long_they_hold)
{
    uint64_t fh;
    uint64_t ino = kernel_create(k, "a", &fh);
    struct wire_getattr_in in = {0};
    struct wire_attr_out out;

    cr_assert_eq(kernel_ask(k, WIRE_GETATTR, ino, &in, sizeof(in), NULL, 0), 0);
    memcpy(&out, k->body, sizeof(out));
    cr_assert_eq(out.attr_valid, 2);
    cr_assert_eq(out.attr_valid_ns, 500000000);
    cr_assert_eq(out.attr.ino, ino);
    cr_assert_eq(out.attr.mode, S_IFREG | 0644);
    struct wire_setattr_in set = {
        .valid = WIRE_SET_MODE | WIRE_SET_MTIME, .mode = 0600, .mtime_s = 99};
    cr_assert_eq(kernel_ask(k, WIRE_SETATTR, ino, &set, sizeof(set), NULL, 0), 0);
    memcpy(&out, k->body, sizeof(out));
    cr_assert_eq(out.attr.mode, S_IFREG | 0600);
    cr_assert_eq(out.attr.mtime_s, 99);
}

static bool keeps_pages(uint64_t ino, uint32_t flags)
{
    struct wire_open_in in = {.flags = flags};
    struct wire_open_out out;

    cr_assert_eq(kernel_ask(k, WIRE_OPEN, ino, &in, sizeof(in), NULL, 0), 0);
    memcpy(&out, k->body, sizeof(out));
    cr_assert_eq(!!(out.open_flags & WIRE_FOPEN_NOFLUSH), (flags & O_ACCMODE) == O_RDONLY);
    return out.open_flags & WIRE_FOPEN_KEEP_CACHE;
}

Test(serve, pages_are_kept_while_nobody_else_writes)
{
    uint64_t fh;
    uint64_t ino = kernel_create(k, "a", &fh);

    cr_assert(keeps_pages(ino, O_RDONLY));
    cr_assert_eq(write_at(ino, fh, 0, "x", 1), 0);
    struct wire_release_in release = {.fh = fh, .flags = O_RDWR};
    cr_assert_eq(kernel_ask(k, WIRE_RELEASE, ino, &release, sizeof(release), NULL, 0), 0);
    cr_assert(keeps_pages(ino, O_RDWR), "our own writes leave them true");
    fake_news(s, ino, NULL);
    cr_assert_eq(kernel_take(k), WIRE_NOTIFY_INVAL_INODE);
    cr_assert_not(keeps_pages(ino, O_RDONLY));
    cr_assert(keeps_pages(ino, O_RDONLY));
}

static bool goes_past_pages(struct kernel *kernel, uint64_t ino, uint32_t flags)
{
    struct wire_open_in in = {.flags = flags};
    struct wire_open_out out;

    cr_assert_eq(kernel_ask(kernel, WIRE_OPEN, ino, &in, sizeof(in), NULL, 0), 0);
    memcpy(&out, kernel->body, sizeof(out));
    return out.open_flags & WIRE_FOPEN_DIRECT_IO;
}

Test(serve, what_is_only_written_goes_past_the_pages)
{
    uint64_t fh;
    uint64_t ino = kernel_create(k, "a", &fh);

    cr_assert_not(goes_past_pages(k, ino, O_RDONLY));
    cr_assert_not(goes_past_pages(k, ino, O_RDWR));
    cr_assert(goes_past_pages(k, ino, O_WRONLY | O_APPEND));
}

Test(serve, kernels_that_would_keep_old_bytes_write_through_their_pages)
{
    struct keeper_state *state = kernel_state(false);
    struct kernel *older = calloc(1, sizeof(*older));
    struct stage *files = fake_stage();
    struct wire_init_in init;
    uint64_t fh;

    memcpy(&init, state->init, sizeof(init));
    init.minor = 44;
    memcpy(state->init, &init, sizeof(init));
    kernel_adopt(older, files, state);
    cr_assert_not(goes_past_pages(older, kernel_create(older, "a", &fh), O_WRONLY));
    kernel_stop(older);
    kernel_state_free(state);
    fake_free(files);
    free(older);
}

Test(serve, pages_of_a_refused_write_are_not_kept)
{
    uint64_t fh;
    uint64_t ino = kernel_create(k, "full", &fh);
    struct wire_release_in release = {.fh = fh, .flags = O_RDWR};

    cr_assert(keeps_pages(ino, O_RDONLY));
    cr_assert_eq(write_at(ino, fh, 0, "no room", 7), -ENOSPC);
    cr_assert_eq(kernel_ask(k, WIRE_RELEASE, ino, &release, sizeof(release), NULL, 0), 0);
    cr_assert_not(keeps_pages(ino, O_RDONLY));
    cr_assert(keeps_pages(ino, O_RDONLY));
    cr_assert(kernel_silent(k), "a notification may wait for a page that waits for us");
}

Test(serve, what_is_slow_holds_up_nobody)
{
    uint64_t fh, fast_fh;
    uint64_t slow = kernel_create(k, "slow", &fh);
    uint64_t fast = kernel_create(k, "fast", &fast_fh);
    struct wire_read_in in = {.fh = fh, .size = 10};
    uint64_t waiting[100];
    char *big = calloc(1, 1u << 20);

    cr_assert_eq(write_at(fast, fast_fh, 0, "x", 1), 0);
    /* More than there are workers, than there are lanes; and large ones, which keep their desks. */
    for (int i = 0; i < 90; i++)
        waiting[i] = kernel_send(k, WIRE_READ, slow, &in, sizeof(in), NULL, 0);
    for (int i = 90; i < 100; i++) {
        struct wire_write_in w = {.fh = fh, .size = 1u << 20};
        waiting[i] = kernel_send(k, WIRE_WRITE, slow, &w, sizeof(w), big, 1u << 20);
    }
    for (int i = 0; i < 20; i++)
        cr_assert_eq(write_at(fast, fast_fh, 0, "x", 1), 0);
    cr_assert(kernel_silent(k));
    fake_let_go(s);
    for (int n = 0; n < 100; n++) {
        cr_assert_eq(kernel_take(k), 0);
        for (int i = 0; i < 100; i++)
            if (waiting[i] == k->head.unique)
                waiting[i] = 0;
    }
    for (int i = 0; i < 100; i++)
        cr_assert_eq(waiting[i], 0, "request %d was not answered", i);
    free(big);
}

Test(serve, a_refused_put_is_the_closers_error)
{
    uint64_t fh;
    uint64_t ino = kernel_create(k, "denied", &fh);
    struct wire_flush_in flush = {.fh = fh};

    cr_assert_eq(kernel_ask(k, WIRE_FLUSH, ino, &flush, sizeof(flush), NULL, 0), -EACCES);
    struct wire_fsync_in sync = {.fh = fh};
    cr_assert_eq(kernel_ask(k, WIRE_FSYNC, ino, &sync, sizeof(sync), NULL, 0), -EACCES);
}

Test(serve, bytes_that_are_no_request)
{
    struct wire_read_in in = {.fh = 1, .size = 10};
    struct wire_write_in w = {.fh = 1, .size = 100};
    char name[300];

    cr_assert_eq(kernel_ask(k, WIRE_READ, 5, &in, 8, NULL, 0), -EINVAL);
    cr_assert_eq(kernel_ask(k, WIRE_WRITE, 5, &w, sizeof(w), "short", 5), -EINVAL);
    cr_assert_eq(kernel_ask(k, WIRE_LOOKUP, 1, NULL, 0, "no end", 6), -EINVAL);
    cr_assert_eq(kernel_ask(k, WIRE_LOOKUP, 1, NULL, 0, "", 1), -EINVAL);
    cr_assert_eq(kernel_ask(k, WIRE_MKDIR, 1, NULL, 0, NULL, 0), -EINVAL);
    cr_assert_eq(kernel_ask(k, WIRE_SYMLINK, 1, NULL, 0, "one\0two", 7), -EINVAL);
    cr_assert_eq(kernel_ask(k, WIRE_GETXATTR, 1, NULL, 0, NULL, 0), -ENOSYS);
    cr_assert_eq(kernel_ask(k, 4000000000u, 1, NULL, 0, NULL, 0), -ENOSYS);
    memset(name, 'n', sizeof(name));
    name[256] = '\0';
    cr_assert_eq(kernel_ask(k, WIRE_LOOKUP, 1, NULL, 0, name, 257), -ENAMETOOLONG);
    struct wire_mkdir_in dir = {.mode = 0755};
    cr_assert_eq(kernel_ask_name(k, WIRE_MKDIR, 1, &dir, sizeof(dir), name), -ENAMETOOLONG);
    kernel_send(k, WIRE_BATCH_FORGET, 0, &in, 4, NULL, 0); /* no reply to it, ever */
    cr_assert_eq(kernel_ask_name(k, WIRE_LOOKUP, 1, NULL, 0, "x"), -ENOENT);
}

Test(serve, links_between_files)
{
    struct wire_link_in in = {.nodeid = 2};

    cr_assert_eq(kernel_ask_name(k, WIRE_LINK, 1, &in, sizeof(in), "hard"), -EPERM);
    cr_assert_eq(kernel_ask(k, WIRE_SYMLINK, 1, NULL, 0, "soft\0../to", 11), 0);
    struct wire_entry_out out;
    memcpy(&out, k->body, sizeof(out));
    cr_assert(S_ISLNK(out.attr.mode));
    cr_assert_eq(kernel_ask(k, WIRE_READLINK, out.nodeid, NULL, 0, NULL, 0), 0);
    cr_assert_eq(k->body_len, 5);
    cr_assert_eq(memcmp(k->body, "../to", 5), 0);
}

Test(serve, mknod_makes_files_only)
{
    struct wire_mknod_in in = {.mode = S_IFREG | 0600};

    cr_assert_eq(kernel_ask_name(k, WIRE_MKNOD, 1, &in, sizeof(in), "f"), 0);
    in.mode = S_IFIFO | 0600;
    cr_assert_eq(kernel_ask_name(k, WIRE_MKNOD, 1, &in, sizeof(in), "p"), -EPERM);
}

/* Whose close fails is there, and nobody was told its number. */
Test(serve, what_mknod_fails_to_store_is_not_looked_up)
{
    struct wire_mknod_in in = {.mode = S_IFREG | 0600};
    struct wire_entry_out out;

    cr_assert_eq(kernel_ask_name(k, WIRE_MKNOD, 1, &in, sizeof(in), "denied"), -EACCES);
    cr_assert_eq(kernel_ask_name(k, WIRE_LOOKUP, 1, NULL, 0, "denied"), 0);
    memcpy(&out, k->body, sizeof(out));
    cr_assert_eq(fake_lookups(s, out.nodeid), 1);
}

/* Names of a listing, joined. */
static void names_of(const char *body, size_t len, bool plus, char *ret)
{
    *ret = '\0';
    for (size_t at = 0; at < len;) {
        const struct wire_dirent *d =
            (const void *)(body + at + (plus ? sizeof(struct wire_entry_out) : 0));
        ret += snprintf(ret, 300, "%.*s ", (int)d->namelen, (const char *)(d + 1));
        at += WIRE_ALIGN((plus ? sizeof(struct wire_direntplus) : sizeof(*d)) + d->namelen);
    }
}

Test(serve, listings)
{
    char names[1000];
    uint64_t fh;
    struct wire_read_in in = {.size = 4096};

    kernel_create(k, "a", &fh);
    uint64_t b = kernel_create(k, "bb", &fh);
    kernel_create(k, "slow", &fh);
    cr_assert_eq(kernel_ask(k, WIRE_READDIR, 1, &in, sizeof(in), NULL, 0), 0);
    names_of(k->body, k->body_len, false, names);
    cr_assert_str_eq(names, ". .. a bb slow ");
    in.offset = 2 + 2; /* after "a", inode 2 */
    cr_assert_eq(kernel_ask(k, WIRE_READDIR, 1, &in, sizeof(in), NULL, 0), 0);
    names_of(k->body, k->body_len, false, names);
    cr_assert_str_eq(names, "bb slow ");
    unsigned before = fake_lookups(s, b);
    cr_assert_eq(kernel_ask(k, WIRE_READDIRPLUS, 1, &in, sizeof(in), NULL, 0), 0);
    names_of(k->body, k->body_len, true, names);
    cr_assert_str_eq(names, "bb slow ");
    cr_assert_eq(fake_lookups(s, b), before + 1, "an entry with attributes is looked up");
    const struct wire_entry_out *first = (const void *)k->body;
    cr_assert_eq(first->nodeid, b);
    const struct wire_entry_out *second =
        (const void *)(k->body + WIRE_ALIGN(sizeof(struct wire_direntplus) + 2));
    cr_assert_eq(second->nodeid, 0, "what is not known yet is left open");
    in.size = 10;
    cr_assert_eq(kernel_ask(k, WIRE_READDIR, 1, &in, sizeof(in), NULL, 0), 0);
    cr_assert_eq(k->body_len, 0, "no room for one entry");
}

Test(serve, the_status_file)
{
    struct wire_entry_out out;
    struct wire_open_in open = {.flags = O_RDONLY};
    struct wire_read_in read = {.size = 100};
    struct wire_mkdir_in dir = {.mode = 0755};

    cr_assert_eq(kernel_ask_name(k, WIRE_LOOKUP, 1, NULL, 0, ".sampan"), 0);
    memcpy(&out, k->body, sizeof(out));
    uint64_t folder = out.nodeid;
    cr_assert_eq(kernel_ask_name(k, WIRE_LOOKUP, folder, NULL, 0, "status.json"), 0);
    memcpy(&out, k->body, sizeof(out));
    cr_assert_eq(out.attr.size, 17);
    cr_assert_eq(kernel_ask(k, WIRE_OPEN, out.nodeid, &open, sizeof(open), NULL, 0), 0);
    cr_assert_eq(kernel_ask(k, WIRE_READ, out.nodeid, &read, sizeof(read), NULL, 0), 0);
    cr_assert_eq(memcmp(k->body, "{\"state\":\"ready\"}", 17), 0);
    cr_assert_eq(kernel_ask_name(k, WIRE_MKDIR, 1, &dir, sizeof(dir), ".sampan"), -EPERM);
    cr_assert_eq(kernel_ask_name(k, WIRE_MKDIR, folder, &dir, sizeof(dir), "x"), -EPERM);
    cr_assert_eq(kernel_ask_name(k, WIRE_UNLINK, folder, NULL, 0, "status.json"), -EPERM);
    cr_assert_eq(kernel_ask_name(k, WIRE_RMDIR, 1, NULL, 0, ".sampan"), -EPERM);
    struct wire_ioctl_in ioctl = {.flags = WIRE_IOCTL_DIR,
                                  .cmd = SAMPAN_IOC_STATUS,
                                  .out_size = sizeof(struct sampan_ioc_status)};
    cr_assert_eq(kernel_ask(k, WIRE_IOCTL, 1, &ioctl, sizeof(ioctl), NULL, 0), 0);
    cr_assert_eq(k->body_len, sizeof(struct wire_ioctl_out) + sizeof(struct sampan_ioc_status));
}

Test(serve, news_reach_the_kernel)
{
    fake_news(s, 1, "gone");
    cr_assert_eq(kernel_take(k), WIRE_NOTIFY_INVAL_ENTRY);
    cr_assert_eq(k->head.unique, 0);
    struct wire_inval_entry_out entry;
    memcpy(&entry, k->body, sizeof(entry));
    cr_assert_eq(entry.parent, 1);
    cr_assert_eq(entry.namelen, 4);
    cr_assert_str_eq(k->body + sizeof(entry), "gone");
    fake_news(s, 77, NULL);
    cr_assert_eq(kernel_take(k), WIRE_NOTIFY_INVAL_INODE);
    struct wire_inval_inode_out inode;
    memcpy(&inode, k->body, sizeof(inode));
    cr_assert_eq(inode.ino, 77);
}

/* A kernel that takes no notification for long hears once of each file, however often it changed.
 */
Test(serve, news_of_one_file_are_one)
{
    enum { FILES = 10, CHANGES = 2000 };
    bool told[FILES] = {false};
    int code, n = 0, room = 64 << 10; /* some hundred notifications */

    setsockopt(k->dev, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    for (int i = 0; i < CHANGES * FILES; i++)
        fake_news(s, (uint64_t)(100 + i % FILES), NULL);
    fake_news(s, 1, "end");
    while ((code = kernel_take(k)) == WIRE_NOTIFY_INVAL_INODE) {
        struct wire_inval_inode_out inode;
        memcpy(&inode, k->body, sizeof(inode));
        cr_assert(inode.ino >= 100 && inode.ino < 100 + FILES);
        told[inode.ino - 100] = true;
        n++;
    }
    cr_assert_eq(code, WIRE_NOTIFY_INVAL_ENTRY);
    for (int i = 0; i < FILES; i++)
        cr_expect(told[i], "file %d", i);
    cr_expect_lt(n, CHANGES, "%d notifications of %d files", n, FILES);
}

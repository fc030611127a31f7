#!/usr/bin/env bash
# SIGTERM just before mount(2), whose cleaning up goes on after it: the start is broken off as a whole. What would be handed
# to the keeper then is a mount without its cache.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/broken-disk.sh"
need_mount
need_root "mount(2) is what is met"
need_command "${CC:-cc}"
cat >"$T/late.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>
static atomic_bool told, cleaning;
int mount(const char *what, const char *where, const char *type, unsigned long flags, const void *data)
{
    int (*real)(const char *, const char *, const char *, unsigned long, const void *);
    *(void **)&real = dlsym(RTLD_NEXT, "mount");
    if (!atomic_exchange(&told, 1)) {
        kill(getpid(), SIGTERM);
        while (!atomic_load(&cleaning))
            usleep(1000);
    }
    return real(what, where, type, flags, data);
}
int unlinkat(int dir, const char *name, int flags)
{
    int (*real)(int, const char *, int);
    char thread[16] = "";
    *(void **)&real = dlsym(RTLD_NEXT, "unlinkat");
    pthread_getname_np(pthread_self(), thread, sizeof thread);
    if (strcmp(thread, "signals") == 0 && !atomic_exchange(&cleaning, 1))
        sleep(2);
    return real(dir, name, flags);
}
C
"${CC:-cc}" -shared -fPIC -o "$T/late.so" "$T/late.c" -ldl
make_set --classes 1 --files 2
on_exit "unmount_quietly '$MNT'"
code=0
LD_PRELOAD="$T/late.so" sampan mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB" 2>"$T/err" || code=$?
[ "$code" != 0 ] || fail "mount says that it worked"
has interrupted <"$T/err" || fail "the message: $(cat "$T/err")"
nothing_left

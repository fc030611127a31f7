#!/usr/bin/env bash
# `make install` leaves libsampan-loader with its headers and pkg-config file: a program outside the tree, in C++ here,
# is built against those alone.
. "$SAMPAN_TESTS/lib/common.sh"
need_command pkg-config
need_command c++
make --no-print-directory -C "$SAMPAN_TESTS/.." loader-install DESTDIR="$T/root" PREFIX=/usr BUILD="$SAMPAN_BUILD" >"$T/log/install"
cat >"$T/embed.cc" <<'C'
#include <cinttypes>
#include <cstdio>
#include <loader.h>

int main(int, char **argv)
{
    struct err err = {};
    struct loader_options options;
    loader_options_init(&options);
    struct loader *loader;
    if (loader_open(&loader, &options, &err) != -1 || err.error_class != ERR_USAGE)
        return 2;
    err_clear(&err);
    options.dir = argv[1];
    options.format = LOADER_RAW;
    options.batch = 4;
    options.epochs = 1;
    if (loader_open(&loader, &options, &err))
        return std::puts(err.msg);
    const struct loader_batch *batch;
    while (loader_next(loader, &batch, &err) == 1) {
        for (uint32_t i = 0; i < batch->n; i++)
            std::printf("%" PRIu64 ":%d:%" PRIu64 " ", batch->numbers[i], batch->labels[i], batch->sizes[i]);
        loader_release(loader, batch);
    }
    std::puts(err.msg);
    loader_close(loader);
    return 0;
}
C
export PKG_CONFIG_PATH="$T/root/usr/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$T/root" PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
# shellcheck disable=SC2046
(cd "$T" && c++ -std=c++17 -Wall -Wextra -Werror -o embed embed.cc $(pkg-config --cflags --libs sampan-loader))
mkdir -p "$T/set/cat" "$T/set/dog"
for size in 100 200 300; do
    head -c $size /dev/zero >"$T/set/cat/$size.jpg"
done
head -c 70 /dev/zero >"$T/set/dog/70.jpg"
head -c 80 /dev/zero >"$T/set/dog/80.png"
expect "what it reads" "$(LD_LIBRARY_PATH="$T/root/usr/lib" "$T/embed" "$T/set")" "0:0:100 1:0:200 2:0:300 3:1:70 4:1:80 "
# A program that loads it, closes it and goes on has its own handler of SIGBUS, which is no address of what was unloaded.
cat >"$T/plugin.c" <<'C'
#include <dlfcn.h>
#include <loader.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static void own_handler(int number)
{
    (void)number;
    (void)!write(STDOUT_FILENO, "its own", 7);
    _exit(0);
}

int main(int argc, char **argv)
{
    signal(SIGBUS, own_handler);
    for (int i = 0; i < 2 && argc == 3; i++) {
        void *library = dlopen(argv[1], RTLD_NOW);
        if (!library)
            return puts(dlerror());
        __typeof__(loader_options_init) *init = dlsym(library, "loader_options_init");
        __typeof__(loader_open) *begin = dlsym(library, "loader_open");
        __typeof__(loader_close) *end = dlsym(library, "loader_close");
        struct loader_options options;
        struct loader *loader;
        struct err err = {0};
        init(&options);
        options.dir = argv[2];
        if (begin(&loader, &options, &err))
            return puts(err.msg);
        end(loader);
        dlclose(library);
    }
    raise(SIGBUS);
    return 1;
}
C
# shellcheck disable=SC2046
(cd "$T" && cc -Wall -Wextra -Werror -o plugin plugin.c $(pkg-config --cflags sampan-loader))
expect "the handler" "$("$T/plugin" "$T/root/usr/lib/libsampan-loader.so" "$T/set")" "its own"
if nm -D -g --defined-only "$T/root/usr/lib/libsampan-loader.so" | awk 'NF == 3 { print $3 }' | grep -Ev '^(loader_|err_)' >"$T/names"; then
    fail "names that are not its headers': $(cat "$T/names")"
fi

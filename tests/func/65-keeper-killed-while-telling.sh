#!/usr/bin/env bash
# kill -9 of the daemon after it has switched to a new version, before the kernel was told of it: the next life tells it, and
# no name of the version before stays for a day.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
make_set --classes 2 --files 5
mount_set "file://$SRC" --refresh 1s
version=
newer() { [ "$(status version)" != "$version" ]; }
change() { # TEXT REMOVED
    version=$(status version)
    rm -f "$SRC/class-001/$2"
    echo "$1" >"$T/new"
    mv "$T/new" "$SRC/class-000/000000.bin" # no scan finds half of it
    until_true 30 newer || fail "no new version"
}
# The first one is told by a helper that starts with it, and is stopped before the second.
change "new bytes" 000002.bin
told() { [ "$(cat "$MNT/class-000/000000.bin")" = "$1" ]; }
until_true 30 told "new bytes" || fail "the first change is not seen"
two_told() { [ "$(status kernel.invalidated)" = 2 ]; }
until_true 30 two_told || fail "the first change is not told"
helper=$(pgrep -P "$(life)" -f fuse-helper) || fail "no helper"
kill -STOP "$helper"
on_exit "kill -9 $helper"
# What is held open the kernel does not forget by itself.
exec 8<"$MNT/class-000/000000.bin" 9<"$MNT/class-001/000003.bin"
newest="newer bytes, and more of them"
change "$newest" 000003.bin
told "new bytes" || fail "it was told though nobody could"
kill -9 "$(life)"
kill -9 "$helper"
until_true 20 restarts_are 1 || fail "no new daemon"
# It serves before it has told all.
until_true 30 told "$newest" || fail "the changed file: $(cat "$MNT/class-000/000000.bin")"
gone() { [ ! -e "$MNT/class-001/000003.bin" ]; }
until_true 30 gone || fail "a name that is gone is remembered"
exec 8<&- 9<&-
same_tree "$SRC" "$MNT"
unmount
nothing_left

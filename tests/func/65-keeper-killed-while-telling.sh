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
change() { # TEXT
    version=$(status version)
    echo "$1" >"$SRC/class-000/000000.bin"
    rm -f "$SRC/class-001/000002.bin"
    until_true 30 newer || fail "no new version"
}
# The first one is told by a helper that starts with it, and is stopped before the second.
change "new bytes"
told() { [ "$(cat "$MNT/class-000/000000.bin")" = "$1" ]; }
until_true 30 told "new bytes" || fail "the first change is not seen"
helper=$(pgrep -P "$(life)" -f fuse-helper) || fail "no helper"
kill -STOP "$helper"
on_exit "kill -9 $helper"
stat "$MNT/class-001/000003.bin"
rm "$SRC/class-001/000003.bin"
# What the kernel remembers it may forget by itself; then it learns the newest, and that is changed once more.
remembered="new bytes"
for round in 1 2 3 4 5; do
    newest="newer bytes, and more of them: $round"
    change "$newest"
    ! told "$remembered" || break
    [ "$round" -lt 5 ] || fail "it was told though nobody could"
    remembered=$newest
done
kill -9 "$(life)"
kill -9 "$helper"
until_true 20 restarts_are 1 || fail "no new daemon"
# It serves before it has told all.
until_true 30 told "$newest" || fail "the changed file: $(cat "$MNT/class-000/000000.bin")"
gone() { [ ! -e "$MNT/class-001/000003.bin" ]; }
until_true 30 gone || fail "a name that is gone is remembered"
same_tree "$SRC" "$MNT"
unmount
nothing_left

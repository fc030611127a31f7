#!/usr/bin/env bash
# kill -9 of the keeper: the daemon goes on and has a new keeper, which does the same work.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
make_set --classes 2 --files 20
mount_set "file://$SRC"
start_readers
daemon=$(life)
for i in 1 2; do
    old=$(keeper)
    kill -9 "$old"
    another() { [ "$(keeper)" != "$old" ] && [ -d "/proc/$(keeper)" ]; }
    until_true 20 another || fail "no new keeper"
    expect "the daemon goes on" "$(life)" "$daemon"
done
kill_life
readers_ok
unmount
nothing_left

#!/usr/bin/env bash
# A set that was named by a path from some folder is told by its whole path, with a keeper and without: other commands
# find it from other folders, and the cure of a dead mount works there.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 3
cd "$T"
for keeper in "" --no-keeper; do
    # shellcheck disable=SC2086
    mount_set "${SRC#"$T/"}" $keeper
    expect "the set${keeper:+ with $keeper}" "$(sampan status "$MNT" --json | field uri)" "$SRC"
    (cd / && sampan bench fetch "$MNT" --json >"$T/bench") || fail "bench fetch from another folder"
    [ -n "$keeper" ] || unmount
done
kill -9 $(daemons)
until_true 10 no_daemon
expect "the set of a dead mount" "$(sampan status --json | field uri)" "$SRC"
sampan umount "$MNT"

#!/usr/bin/env bash
# Keeper and daemon killed at once: readers fail, doctor says what to do, and one `sampan mount` heals it.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
make_set --classes 2 --files 5
mount_set "file://$SRC"
same_bytes "$SRC" "$MNT"
keeper=$(keeper) daemon=$(life)
kill -STOP "$daemon"
kill -9 "$keeper" "$daemon"
until_true 10 no_daemon
! stat "$MNT/never-seen" 2>"$T/ls" || fail "a mount without server answers"
grep -q "not connected" "$T/ls" || fail "not ENOTCONN: $(cat "$T/ls")"
expect "state" "$(sampan status --json | field state)" dead
code=0
sampan doctor >"$T/doctor" || code=$?
expect "exit code of doctor" "$code" 1
grep -q "dead mount.*$MNT.*sampan mount file://$SRC $MNT heals" "$T/doctor" || fail "doctor: $(cat "$T/doctor")"
mount_set "file://$SRC"
expect "one mount there" "$(grep -Fc " ${MNT// /\\040} " /proc/self/mountinfo)" 1
same_bytes "$SRC" "$MNT"
expect "nothing fetched again" "$(status fetch.requests)" 0
refused 2 "mounted there already" sampan mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB"
unmount
nothing_left

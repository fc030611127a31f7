#!/usr/bin/env bash
# A mount whose first program knew no lock of the state has one after an upgrade: whoever holds the descriptors, and takes
# the mount for dead too early, starts no second daemon.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
mount_for_a_holder
start_readers
"$PYTHON" "$SAMPAN_TESTS/lib/older_state.py" "$(life)"
sampan upgrade "$MNT"
start_holder
keeper=$(keeper) daemon=$(life)
revive
expect "keeper" "$(keeper)" "$keeper"
expect "daemon" "$(life)" "$daemon"

rm "$T/go" "$T/held"
start_holder
kill -STOP "$daemon"
kill -9 "$keeper" "$daemon"
until_true 10 no_daemon
revive
[ "$(keeper)" != "$keeper" ] || fail "the same keeper"
kill_life
readers_ok
unmount
nothing_left

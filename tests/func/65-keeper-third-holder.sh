#!/usr/bin/env bash
# Whoever holds device, state and listener as well can revive a mount after keeper and daemon were killed at once.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
mount_for_a_holder
start_holder
start_readers
keeper=$(keeper) daemon=$(life)
kill -STOP "$daemon"
kill -9 "$keeper" "$daemon"
until_true 10 no_daemon
revive
expect "restarts" "$(status restarts)" 1
[ "$(keeper)" != "$keeper" ] || fail "the same keeper"
kill_life
readers_ok
unmount
nothing_left

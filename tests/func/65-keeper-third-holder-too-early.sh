#!/usr/bin/env bash
# Whoever holds the descriptors takes a mount for dead too early: a keeper or a daemon, started in the last moment of the
# one before it, is there yet. No second daemon is started beside it, which would answer a part of all reads with errors.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
mount_for_a_holder
start_holder
start_readers
keeper=$(keeper) daemon=$(life)
revive
expect "keeper of one that serves" "$(keeper)" "$keeper"
expect "daemon of one that serves" "$(life)" "$daemon"

rm "$T/go" "$T/held"
start_holder
# As long as it is not registered, as one that has just been started.
entry=$(grep -l "\"$MNT\"" "$SAMPAN_RUN_DIR"/*.json)
mv "$entry" "$T/entry"
echo >"$T/go"
sleep 0.5
kill -0 "$HOLDER" || fail "it does not wait for a daemon that is there"
mv "$T/entry" "$entry"
wait "$HOLDER" || fail "revive failed"
expect "keeper of one that serves again" "$(keeper)" "$keeper"
expect "daemon of one that serves again" "$(life)" "$daemon"
kill_life
readers_ok
unmount
nothing_left

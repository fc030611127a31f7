#!/usr/bin/env bash
# kill -9 of the daemon while the kernel is told of another writer's change, and that waits for a lock whose holder's
# own request is in the daemon's hand: the next life begins, answers it, and the change is seen.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
[ -x "$SAMPAN_BUILD/bin/sampan-keeper" ] || skip "no keeper here"
use_writable_store # use_s3 behind the proxy
mount_writable "$STORE/out" --refresh 200ms
wait_while_telling out/folder
first=$(life)
kill -9 "$first"
until_true 20 restarts_are 1 || fail "no new daemon: $first waits in $(cat "/proc/$first"/task/*/wchan || true)"
faults
wait "$remover" || fail "the remover saw an error"
changed() { [ "$(cd "$MNT/folder" && echo *)" = "looked-at new" ]; }
until_true 20 changed || fail "the folder shows $(ls "$MNT/folder")"
expect "the other writer's bytes" "$(cat "$MNT/folder/new")" there
unmount
nothing_left

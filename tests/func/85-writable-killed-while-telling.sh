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
abort_at_exit
mkdir "$MNT/folder"
echo here >"$MNT/folder/looked-at"
echo here >"$MNT/folder/gone"
first=$(life)
# Who removes a name holds its folder until the store has answered.
faults "stall-head key=folder/gone"
rm "$MNT/folder/gone" &
remover=$!
until_true 20 eval '[ "$(status requests.waiting)" -ge 1 ]' || fail "the remover does not wait"
echo there | stored put-bytes out/folder/new
telling() {
    stat "$MNT/folder/looked-at" >"$T/stat" # has the folder listed anew
    a_notification_waits "$first"
}
until_true 20 telling || fail "no notification waits"
kill -9 "$first"
until_true 20 restarts_are 1 || fail "no new daemon: $first waits in $(cat "/proc/$first"/task/*/wchan || true)"
faults
wait $remover || fail "the remover saw an error"
changed() { [ "$(cd "$MNT/folder" && echo *)" = "looked-at new" ]; }
until_true 20 changed || fail "the folder shows $(ls "$MNT/folder")"
expect "the other writer's bytes" "$(cat "$MNT/folder/new")" there
unmount
nothing_left

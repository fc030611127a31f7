#!/usr/bin/env bash
# Under a writer that compares every byte: upgrade puts another program in the daemon's place, what is pending and an
# unlinked open file included; a keeper that is killed has a successor.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
[ -x "$SAMPAN_BUILD/bin/sampan-keeper" ] || skip "no keeper here"
use_writable_store # use_s3 behind the proxy
mount_writable "$STORE/out" --commit background
faults "status=503 key=pending"
echo pending >"$MNT/pending"
exec 8<>"$MNT/unlinked"
echo "still here" >&8
rm "$MNT/unlinked"
first=$(life)
upgrade() {
    cp "$S" "$T/sampan-new"
    sampan upgrade "$MNT" --program "$T/sampan-new"
    expect "program" "$(readlink "/proc/$(life)/exe")" "$T/sampan-new"
    rm "$T/sampan-new"
    sampan upgrade --all
    expect "program" "$(readlink "/proc/$(life)/exe")" "$(readlink -f "$S")"
    at_least "pending files" "$(pending files)" 1
    faults
}
work_beside 4 upgrade
[ "$(life)" != "$first" ] || fail "the same process serves"
expect "restarts" "$(status restarts)" 2
expect "the unlinked file" "$(cat "/proc/$$/fd/8")" "still here"
kill_keepers() {
    local old i
    another() { [ "$(keeper)" != "$old" ] && [ -d "/proc/$(keeper)" ]; }
    for i in 1 2; do
        old=$(keeper)
        kill -9 "$old"
        until_true 20 another || fail "no new keeper"
    done
}
daemon=$(life)
work_beside 4 kill_keepers
expect "the daemon goes on" "$(life)" "$daemon"
exec 8>&-
kill_life
expect "what was pending" "$(stored cat out/pending)" pending
unmount
nothing_left

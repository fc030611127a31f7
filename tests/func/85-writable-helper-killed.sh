#!/usr/bin/env bash
# kill -9 of the process that tells the kernel of other writers' changes: no change goes untold.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
use_store # use_s3
mount_writable "$STORE/out" --refresh 100ms
echo 0 >"$MNT/file"
cat "$MNT/file" >"$T/seen"
shows() { [ "$(stat -c %s "$MNT/file")" = $((${#1} + 1)) ]; } # it is not open while it is replaced: then another name is told
helper() { pgrep -P "$(life)" -f fuse-helper; }
told_are() { [ "$(status requests.told)" = "$1" ]; }
replace() { # N: and it is seen, and the kernel was told once more
    local before
    before=$(status requests.told)
    echo "$1" | stored put-bytes out/file
    until_true 20 shows "$1" || fail "shows $(cat "$MNT/file") instead of $1"
    until_true 20 told_are $((before + 1)) || fail "told $(status requests.told) changes, $before before this one"
}
replace 11
first=$(helper) || fail "no helper tells it"
kill -9 "$first"
replace 222
[ "$(helper)" != "$first" ] || fail "the same helper again"
expect "in the end" "$(cat "$MNT/file")" 222
unmount
nothing_left

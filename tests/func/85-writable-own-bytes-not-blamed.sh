#!/usr/bin/env bash
# What the store took from a life that was killed before the answer is not said to be another writer's.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
. "$SAMPAN_TESTS/lib/s3mem.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
start_s3mem
ended() {
    [ "$(store /_count/END)" = "$1" ]
}
mount_writable s3://bucket/out --commit background --refresh 100ms
head -c 20M /dev/zero >"$MNT/file"
sampan flush "$MNT"
ended 1 || fail "it did not go up in parts"
store "/_set?silent=1"
head -c 20M /dev/urandom >"$T/want"
cp "$T/want" "$MNT/file"
until_true 20 ended 2 || fail "no second upload"
store "/_set?deny=1" # the next life cannot store it before it lists
kill_life
store "/_set?silent=0"
told() {
    ls "$MNT" >"$T/ls"
    grep -q "ours will replace it" "$SAMPAN_LOG"
}
until_true 20 told || fail "nothing is said of what the store has"
grep "ours will replace it" "$SAMPAN_LOG" | has "or ours of which no answer came" || fail "somebody else is blamed"
store "/_set?deny=0"
sampan flush "$MNT"
cmp "$T/want" "$MNT/file"
unmount

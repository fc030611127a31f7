#!/usr/bin/env bash
# The store has trouble for a while: who opens, lists, makes or reads what only the store knows waits, and sees no
# error; who is killed meanwhile ends.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
use_writable_store # use_s3 behind the proxy
for name in read list make gone; do
    echo "$name" | stored put-bytes "out/$name/file"
done
mount_writable "$STORE/out" --refresh 1h
ls -l "$MNT" >"$T/root" # the folders are known: none of those who wait holds the root
faults "status=503 key=out"
cat "$MNT/read/file" >"$T/read" 2>&1 &
reader=$!
ls "$MNT/list" >"$T/list" 2>&1 &
lister=$!
sh -c 'echo made >"$1"' - "$MNT/make/new" 2>"$T/make" &
maker=$!
sh -c 'echo made >"$1"' - "$MNT/gone/new" &
killed=$!
waiting() { [ "$(status requests.waiting)" -ge "$1" ]; }
until_true 20 waiting 4 || fail "they don't all wait: $(status requests.waiting) do"
# More often than the engine tries by itself.
asked() { [ "$(grep -c ' 503 ' "$T/log/proxy.access")" -ge 32 ]; }
until_true 20 asked || fail "the store is not asked again: $(cat "$T/log/proxy.access")"
kill -9 $killed
ended() { ! kill -0 $killed 2>/dev/null; }
until_true 5 ended || fail "a killed process still waits"
waiting 3 || fail "somebody waits no more: $(cat "$T/read" "$T/list" "$T/make")"
faults
wait $reader || fail "the reader: $(cat "$T/read")"
wait $lister || fail "who lists: $(cat "$T/list")"
wait $maker || fail "who makes a file: $(cat "$T/make")"
expect "what was read" "$(cat "$T/read")" read
expect "what was listed" "$(cat "$T/list")" file
expect "what was made" "$(stored cat out/make/new)" made
expect "of the killed one" "$(keys | grep -c out/gone/new || true)" 0
expect "errors" "$(status requests.errors)" 0
unmount

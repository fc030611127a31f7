#!/usr/bin/env bash
# Of a mount that can be written doctor asks the store, too: an empty prefix is sound, a store that refuses is named.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
use_writable_store # use_s3 behind the proxy
mount_writable "$STORE/out"
sampan doctor "$MNT" >"$T/empty" || fail "doctor objects to an empty prefix: $(cat "$T/empty")"
grep -q "^ok .*listing.*nothing is stored.*out" "$T/empty" || fail "doctor says: $(cat "$T/empty")"
echo text >"$MNT/file"
sampan doctor "$MNT" >"$T/sound" || fail "doctor objects to a sound mount: $(cat "$T/sound")"
grep -q "^ok .*listing and reading.*file" "$T/sound" || fail "doctor says: $(cat "$T/sound")"
faults "status=403"
code=0
sampan doctor "$MNT" >"$T/refused" || code=$?
expect "exit code" $code 1
grep -q "^wrong .*cannot be listed.*out" "$T/refused" || fail "doctor says: $(cat "$T/refused")"
faults
unmount
nothing_left

#!/usr/bin/env bash
# A mount that can be written whose lives cannot start: flush does not say that all is stored, an unmount goes on,
# and what was pending is stored by the next mount, or after an upgrade.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
use_writable_store # use_s3 behind the proxy
degraded() { [ "$(status state)" = degraded ]; }
journal=
break_lives() { # with a file pending
    ls "$MNT" >"$T/looked" # what it shows is fresh for a while
    faults "status=503"
    echo "$1" >"$MNT/$1"
    at_least "pending files" "$(pending files)" 1
    journal=$(find "$CACHE" -name journal.db)
    mv "$journal" "$T/journal-away"
    mkdir "$journal"
    kill -9 "$(life)"
    until_true 30 degraded || fail "not degraded: $(status state)"
    faults
}
mend() {
    rmdir "$journal"
    mv "$T/journal-away" "$journal"
}

mount_writable "$STORE/out" --commit background
sampan flush "$MNT"
break_lives one
refused 1 "degraded" sampan flush "$MNT"
if (echo no >"$MNT/other") 2>"$T/err"; then fail "a degraded mount takes bytes"; fi
grep -q "Input/output error" "$T/err" || fail "a write says: $(cat "$T/err")"
mend
sampan upgrade "$MNT"
sampan flush "$MNT"
expect "stored" "$(stored cat out/one)" one

break_lives two
unmount
mend
expect "stored so far" "$(keys)" out/one
mount_writable "$STORE/out" --commit background
expect "seen" "$(cat "$MNT/two")" two
sampan flush "$MNT"
expect "stored" "$(stored cat out/two)" two
unmount
nothing_left

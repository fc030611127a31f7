#!/usr/bin/env bash
# The wall clock jumps by hours and years, back and forth, under a mount that is written: every file is stored, an open
# log is published by its interval, nothing is listed wrong.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
mkdir "$T/out"
echo 0 >"$T/clock"
export LD_PRELOAD="$SAMPAN_BUILD/torture/preload.so" TORTURE_CLOCK="$T/clock"
mount_writable "file://$T/out" --commit interval=200ms
unset LD_PRELOAD
exec 8>"$MNT/log"
i=0
for jump in 0 3600 315360000 -1000000000 -3600 0; do
    echo "$jump" >"$T/clock"
    i=$((i + 1))
    echo "line $i" >&8
    echo "content $i" >"$MNT/file-$i"
    mv "$MNT/file-$i" "$MNT/renamed-$i"
    published() { grep -qx "line $i" "$T/out/log" 2>/dev/null && [ "$(cat "$T/out/renamed-$i" 2>/dev/null)" = "content $i" ]; }
    until_true 20 published || fail "not stored after a jump of $jump s: $(ls -la "$T/out")"
    expect "names" "$(find "$MNT" -maxdepth 1 -name 'renamed-*' | wc -l)" "$i"
done
exec 8>&-
sampan flush "$MNT"
same_bytes "$MNT" "$T/out"
unmount
nothing_left

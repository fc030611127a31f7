#!/usr/bin/env bash
# The store is down while files are written: with commit=background nobody waits, and all of it is stored when the
# store is back.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
use_writable_store # use_s3 behind the proxy
mount_writable "$STORE/out" --commit background
mkdir "$MNT/before"
sampan flush "$MNT"
ls "$MNT" "$MNT/before" >"$T/looked"
faults "status=503"
began=$SECONDS
for i in $(seq 20); do
    echo "file $i" >"$MNT/before/$i"
    mv "$MNT/before/$i" "$MNT/before/moved-$i"
done
mkdir "$MNT/before/sub"
cat "$MNT"/before/moved-* >"$T/all"
expect "all is there to read" "$(wc -l <"$T/all")" 20
at_most "seconds without a store" $((SECONDS - began)) 300
at_least "pending files" "$(pending files)" 20
faults
sampan flush "$MNT"
expect "pending" "$(pending files)" 0
expect "objects" "$(keys | wc -l)" 20
expect "content" "$(stored cat out/before/moved-7)" "file 7"
unmount

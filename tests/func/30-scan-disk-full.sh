#!/usr/bin/env bash
# A scan for whose catalog the disk has no room says where, and what to do; nothing half-written stays.
. "$SAMPAN_TESTS/lib/common.sh"
need_root "mounts a small tmpfs"
own_namespace
for i in $(seq 3000); do : >"$SRC/a-file-with-a-name-that-takes-some-room-$i"; done
mkdir "$T/small"
mount -t tmpfs -o size=64k tmpfs "$T/small"
export TMPDIR="$T/small"
for to in "--cache-dir $T/small/cache" "-o $T/small/out.catalog"; do
    # shellcheck disable=SC2086
    refused 4 "$T/small/.*: No space left on device \(make room there\)$" sampan scan "file://$SRC" $to
    expect "files left" "$(find "$T/small" -name '*catalog*' -type f)" ""
done

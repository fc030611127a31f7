#!/usr/bin/env bash
# --bandwidth holds: 6 MB at 2 MB/s take two seconds and more, and not minutes.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 60 --size 100000
start_nginx
mount_set "$HTTP_URL/" --bandwidth 2MB
began=$(date +%s%N)
cat "$MNT"/class-000/* >"$T/all"
ms=$((($(date +%s%N) - began) / 1000000))
echo "took $ms ms"
at_least "milliseconds" $ms 2000
at_most "milliseconds" $ms 120000
same_bytes "$SRC" "$MNT"
unmount

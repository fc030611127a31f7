#!/usr/bin/env bash
# After a verified warmup the store may go: every sample is read and equal, without one request.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 3 --files 20
start_nginx
mount_set "$HTTP_URL/"
warm_all
expect "cached samples" "$(status cache.samples)" 60
stop_nginx
drop_pages
same_bytes "$SRC" "$MNT"
expect "errors" "$(status reads.errors)" 0
unmount

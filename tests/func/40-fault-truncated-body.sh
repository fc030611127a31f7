#!/usr/bin/env bash
# A body that ends early is fetched again: right bytes, and the retry is counted.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 8
use_s3_proxy
mount_set "s3://$BUCKET/"
faults "truncate key=/class- times=2" "reset key=/class- times=2"
same_bytes "$SRC" "$MNT"
at_least "retries" "$(status fetch.retries)" 4
expect "errors" "$(status reads.errors)" 0
unmount

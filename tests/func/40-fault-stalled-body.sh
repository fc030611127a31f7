#!/usr/bin/env bash
# A body that stops coming ends that try, not the read.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 6
use_s3_proxy
mount_set "s3://$BUCKET/"
faults "stall key=/class-000/000001 times=1" "stall-head key=/class-000/000003 times=1"
same_bytes "$SRC" "$MNT"
at_least "second tries" "$(awk -v a="$(status fetch.retries)" -v b="$(status fetch.hedges)" 'BEGIN { print a + b }')" 2
expect "errors" "$(status reads.errors)" 0
unmount

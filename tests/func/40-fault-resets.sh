#!/usr/bin/env bash
# Connections reset in the middle of a body are tried again.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 10
use_s3_proxy
mount_set "s3://$BUCKET/"
faults "reset key=/class- times=3"
same_bytes "$SRC" "$MNT"
at_least "retries" "$(status fetch.retries)" 1
unmount

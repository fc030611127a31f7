#!/usr/bin/env bash
# A storm of 503 SlowDown is waited out with pauses, not with a flood.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 15
use_s3_proxy
mount_set "s3://$BUCKET/"
faults "status=503 key=/class- times=40"
find "$MNT" -type f -print0 | xargs -0 -P 8 -n 4 cat >"$T/all"
same_bytes "$SRC" "$MNT"
expect "errors" "$(status reads.errors)" 0
at_least "retries" "$(status fetch.retries)" 40
at_most "requests for 30 samples and 40 refusals" "$(gets class-)" 90
unmount

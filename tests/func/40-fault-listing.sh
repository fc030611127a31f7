#!/usr/bin/env bash
# Faults during the first listing are tried again; the set is complete.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 4 --files 10
use_s3_proxy
faults "status=503 key=list-type times=2" "reset key=list-type after=0 times=1"
mount_set "s3://$BUCKET/"
same_bytes "$SRC" "$MNT"
expect "samples" "$(status set.samples)" 40
unmount

#!/usr/bin/env bash
# A byte that changed on its way into a mount that can be written: found by --verify-etag, and fetched again.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
make_set --classes 1 --files 2
use_s3_proxy
mount_writable "s3://$BUCKET" --verify-etag
faults "flip key=/class-000/000001 after=1 times=1" # a HEAD comes first
cmp "$SRC/class-000/000000.bin" "$MNT/class-000/000000.bin" # an ETag here is an MD5
cmp "$SRC/class-000/000001.bin" "$MNT/class-000/000001.bin" || fail "wrong bytes were delivered"
at_least "retries" "$(status fetch.retries)" 1

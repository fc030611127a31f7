#!/usr/bin/env bash
# A body with another ETag than the catalog's is never delivered: ESTALE.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 4
use_s3_proxy
mount_set "s3://$BUCKET/"
faults 'etag="00000000000000000000000000000000" key=/class-000/000002'
cat "$MNT/class-000/000002.bin" >"$T/out" 2>"$T/err" && fail "a body with a wrong ETag was delivered"
grep -q "Stale" "$T/err" || fail "not ESTALE: $(cat "$T/err")"
cmp "$SRC/class-000/000001.bin" "$MNT/class-000/000001.bin"
unmount

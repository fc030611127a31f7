#!/usr/bin/env bash
# A byte that changed on its way from an S3 store which keeps the object's CRC: fetched again. Bytes that are wrong every time are
# an error, unless nobody wants to know.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 20
export S3_SUMS=1
use_s3_proxy
mount_set "s3://$BUCKET/"
faults "flip key=/class-001/000003 times=1" "flip key=/class-001/000007 times=1"
same_bytes "$SRC" "$MNT"
expect "retries" "$(status fetch.retries)" 2
expect "bodies found wrong" "$(status fetch.mismatches)" 2
expect "errors" "$(status reads.errors)" 0
unmount
# As if the bytes had changed in the store: told at once, not after ten tries.
mount_set "s3://$BUCKET/" --cache "ssd:$T/cache2=1GiB"
faults "flip key=/class-000/000005"
: >"$T/log/proxy.access"
cat "$MNT/class-000/000005.bin" >"$T/out" 2>"$T/err" && fail "wrong bytes were delivered"
grep -q "Input/output error" "$T/err" || fail "not EIO: $(cat "$T/err")"
at_most "tries" "$(gets class-000/000005)" 4 # a read, and the one that the kernel asks once more for
cmp "$SRC/class-000/000004.bin" "$MNT/class-000/000004.bin" || fail "a sample beside it"
faults
cmp "$SRC/class-000/000005.bin" "$MNT/class-000/000005.bin" || fail "the right bytes were refused later"
unmount
mount_set "s3://$BUCKET/" --no-store-sums --cache "ssd:$T/cache3=1GiB"
faults "flip key=/class-000/000005"
cat "$MNT/class-000/000005.bin" >"$T/out" || fail "a sum was looked at"
cmp -s "$SRC/class-000/000005.bin" "$T/out" && fail "no byte was changed"
unmount

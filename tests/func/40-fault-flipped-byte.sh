#!/usr/bin/env bash
# A byte that changed on its way: found by a manifest's sums, and by --verify-etag where ETags are MD5s; fetched again.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 20
use_s3_proxy
mount_set "s3://$BUCKET/" --verify-etag
cat "$MNT/class-000/000000.bin" >"$T/one"
faults "flip key=/class-001/000003 times=1" "flip key=/class-001/000007 times=1"
same_bytes "$SRC" "$MNT"
at_least "retries" "$(status fetch.retries)" 2
expect "errors" "$(status reads.errors)" 0
unmount
stop_proxy
rm -f "$T/proxy.port"
write_manifest
start_nginx
start_proxy "$HTTP_URL"
mount_set "$PROXY_URL/manifest.tsv" --cache "ssd:$T/cache2=1GiB"
faults "flip key=/class-000/000003 times=1" "flip key=/class-001/000007 times=1"
mv "$SRC/manifest.tsv" "$T/"
same_bytes "$SRC" "$MNT"
expect "errors" "$(status reads.errors)" 0
# Bytes that are wrong in the store are told so at once, not after ten tries.
printf X >>"$SRC/class-000/000005.bin"
unmount
awk -F'\t' -v OFS='\t' '/000005/ { $3 = $3; sub(/sha256:..../, "sha256:0000"); $2 = $2 + 1 } 1' "$T/manifest.tsv" >"$SRC/manifest.tsv"
mount_set "$PROXY_URL/manifest.tsv" --cache "ssd:$T/cache3=1GiB"
: >"$T/log/proxy.access"
cat "$MNT/class-000/000005.bin" >"$T/out" 2>"$T/err" && fail "wrong bytes were delivered"
grep -q "Input/output error" "$T/err" || fail "not EIO: $(cat "$T/err")"
at_most "tries" "$(gets class-000/000005)" 4
unmount

#!/usr/bin/env bash
# Without the store: cached samples go on, others are EIO in bounded time; it heals by itself.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 60
start_nginx
start_proxy "$HTTP_URL"
mount_set "$PROXY_URL/"
cat "$MNT"/class-000/000007.bin >"$T/warm"
drop_pages
faults "status=503 key=.bin"
cmp "$SRC/class-000/000007.bin" "$MNT/class-000/000007.bin"
began=$SECONDS
cat "$MNT/class-001/000041.bin" >"$T/out" 2>"$T/err" && fail "read without a store"
grep -q "Input/output error" "$T/err" || fail "not EIO: $(cat "$T/err")"
at_most "seconds until EIO" $((SECONDS - began)) 600
expect "reads that waited, though the kernel asked twice" "$(status reads.errors)" 1
faults
same_bytes "$SRC" "$MNT"
unmount

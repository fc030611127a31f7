#!/usr/bin/env bash
# The same for an object store: ETags tell; deleted objects too.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 6 --size 20000
use_s3
s3 put "$BUCKET" "$SRC"
mount_set "s3://$BUCKET/"
head -c 20000 /dev/zero | tr '\0' z >"$SRC/class-000/000003.bin"
s3 put-bytes "$BUCKET" class-000/000003.bin <"$SRC/class-000/000003.bin"
s3 delete "$BUCKET" class-000/000004.bin
for f in 000003 000004; do
    cat "$MNT/class-000/$f.bin" >"$T/out" 2>"$T/err" && fail "$f was read"
    grep -Eq "Stale" "$T/err" || fail "$f: not ESTALE: $(cat "$T/err")"
done
cmp "$SRC/class-000/000005.bin" "$MNT/class-000/000005.bin"
rm "$SRC/class-000/000004.bin"
sampan scan "$MNT" --json >"$T/scan.json"
expect "changed" "$(field changed <"$T/scan.json")" 1
expect "removed" "$(field removed <"$T/scan.json")" 1
same_bytes "$SRC" "$MNT"
unmount

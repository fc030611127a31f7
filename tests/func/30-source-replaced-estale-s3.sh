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
for f in 000003 000004; do
    status stale_objects | has "class-000/$f.bin" || fail "the status does not name $f: $(status stale_objects)"
done
sampan doctor "$MNT" >"$T/doctor" && fail "doctor finds nothing wrong"
grep -q "000003.bin.*sampan scan" "$T/doctor" || fail "doctor names no cure: $(cat "$T/doctor")"
rm "$SRC/class-000/000004.bin"
(cd "${MNT%/*}" && sampan scan "${MNT##*/}" --json) >"$T/scan.json"
expect "changed" "$(field changed <"$T/scan.json")" 1
expect "removed" "$(field removed <"$T/scan.json")" 1
same_bytes "$SRC" "$MNT"
expect "stale objects of the new version" "$(status stale_objects)" "[]"
sampan doctor "$MNT"
unmount

#!/usr/bin/env bash
# Names that no file system holds are counted by scan, listed by doctor, and cost nobody else a sample.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 3
use_s3
s3 put "$BUCKET" "$SRC"
long=$(printf 'x%.0s' {1..300})
for key in "a/../b" "dir//double" "both" "both/inside" "d/$long" "marked/" "marked/a"; do
    echo "$key" | s3 put-bytes "$BUCKET" "$key"
done
mount_set "s3://$BUCKET/"
cmp "$SRC/class-000/000001.bin" "$MNT/class-000/000001.bin"
sampan scan "s3://$BUCKET/" -o "$T/set.catalog" >"$T/scan.out" 2>&1
grep -Eqi 'name|hold|reported|bad' "$T/scan.out" || fail "scan says nothing of bad names: $(cat "$T/scan.out")"
sampan doctor "$MNT" >"$T/doctor.out" 2>&1 || true
for word in 'a/\.\./b' "xxxxxxxx" 'both' 'marked/'; do
    grep -q "$word" "$T/doctor.out" || fail "doctor does not list $word: $(cat "$T/doctor.out")"
done
unmount

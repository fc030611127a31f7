#!/usr/bin/env bash
# What marks a folder of a bucket goes in the run that deletes what lies in it; those of folders that the source has stay.
. "$SAMPAN_TESTS/lib/common.sh"
use_s3
mkdir -p "$SRC/kept/deep" "$SRC/empty" "$SRC/gone/deep/deeper" "$SRC/kept/gone"
for f in kept/x kept/deep/x gone/x gone/deep/deeper/y kept/gone/z; do echo "$f" >"$SRC/$f"; done
mirror() { sampan sync "file://$SRC" "s3://$BUCKET/set" --dirs --delete-dst --json >"$T/out"; }
mirror
expect "before" "$(s3 keys "$BUCKET" | wc -l)" 12
rm -r "$SRC/gone" "$SRC/kept/gone"
mirror
expect "deleted" "$(field deleted <"$T/out")" 7
want="set/empty/ set/kept/ set/kept/deep/ set/kept/deep/x set/kept/x "
expect "keys" "$(s3 keys "$BUCKET" | LC_ALL=C sort | tr '\n' ' ')" "$want"
mirror
expect "copied, deleted once more" "$(field copied <"$T/out") $(field deleted <"$T/out")" "0 0"
sampan sync "s3://$BUCKET/set" "s3://$BUCKET/copy" --dirs --quiet
sampan sync "s3://$BUCKET/set" "s3://$BUCKET/copy" --dirs --delete-dst --json >"$T/out"
expect "deleted, of buckets" "$(field deleted <"$T/out")" 0

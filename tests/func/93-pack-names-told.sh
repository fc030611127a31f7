#!/usr/bin/env bash
# What a set can't have is a failure of the sync that packs, told by name, each time; all else is packed.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
use_s3
put() { echo "body of $1" | s3 put-bytes "$BUCKET" "src/$1"; }
for key in a a/b 'x//y' d/../e .sampan/z "$(printf 'n%.0s' {1..300})" good; do put "$key"; done
pack() {
    local code=0
    sampan sync "s3://$BUCKET/src" "s3://$BUCKET/packed" --pack 8MiB --json >"$T/out" || code=$?
    expect "exit code" "$code" "$1"
}
of() { field "$1" <"$T/out"; }
for copied in 3 1; do # that another name hides a sample shows when all were packed
    pack 1
    expect "copied" "$(of copied)" "$copied"
    expect "samples of the set, failures" "$(of packed) $(of failed)" "2 5"
    for why in '"a",.*same name' '"x//y",.*empty' '"d/../e",.*part' '"\.sampan/z",.*hides' 'nnn",.*255'; do
        expect "failures of $why" "$(of failures | grep -o '{[^}]*}' | grep -c "$why")" 1
    done
done
at_most "packs" "$(s3 keys "$BUCKET" | grep -c packed/.sampan/packs/)" 2
mount_set "s3://$BUCKET/packed"
expect "samples" "$(cat "$MNT/a/b" "$MNT/good")" "$(printf 'body of a/b\nbody of good')"
unmount
sampan scan "s3://$BUCKET/packed" -o "$T/catalog" 2>"$T/err"
for why in '\ba\b.*same name' 'x//y.*empty' 'd/../e.*part' '\.sampan/z.*hides' 'nnn.*255'; do
    grep -q "$why" "$T/err" || fail "a scan does not tell of $why: $(cat "$T/err")"
done
for key in a 'x//y' d/../e .sampan/z "$(printf 'n%.0s' {1..300})"; do s3 delete "$BUCKET" "src/$key"; done
pack 0
expect "samples of the set, failures" "$(of packed) $(of failed)" "2 0"

#!/usr/bin/env bash
# A packed set is mounted like any other, without listing it; every byte and name is the source's. Syncing
# again writes only what is new; an old version stays readable until a new one is published.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 3 --files 40 --size 0..40000 --odd
s3_names
head -c 19000000 /dev/urandom >"$SRC/large"
head -c 9000000 /dev/urandom >"$SRC/larger-than-a-pack"
use_s3
n=$(find "$SRC" -type f | wc -l)
pack() { sampan sync "file://$SRC" "s3://$BUCKET/packed" --pack 8MiB --json "$@" >"$T/out"; }
of() { field "$1" <"$T/out"; }
pack
expect "copied" "$(of copied)" "$n"
expect "samples of the set" "$(of packed)" "$n"
at_most "objects" "$(s3 keys "$BUCKET" | wc -l)" 8
start_proxy "$MOTO_URL"
export AWS_ENDPOINT_URL=$PROXY_URL
mount_set "s3://$BUCKET/packed"
expect "samples" "$(status set.samples)" "$n"
same_bytes "$SRC" "$MNT"
expect "listings" "$(grep -c 'list-type' "$T/log/proxy.access" || true)" 0
sampan warmup "$MNT" --verify --quiet
unmount
export AWS_ENDPOINT_URL=$MOTO_URL
fresh() { # the set as it is now
    rm -rf "$CACHE"
    mount_set "s3://$BUCKET/packed"
}

pack
expect "copied again" "$(of copied)" 0
expect "packs written again" "$(of packs)" 0
echo new >"$SRC/class-000/new"
echo changed >"$SRC/class-001/$(ls "$SRC/class-001" | head -1)"
rm "$SRC/class-002/$(ls "$SRC/class-002" | head -1)"
pack
expect "copied" "$(of copied)" 2
expect "packs" "$(of packs)" 1
expect "samples with the removed one" "$(of packed)" $((n + 1))
pack --delete-dst
expect "samples" "$(of packed)" "$n"
fresh
same_bytes "$SRC" "$MNT"
unmount
pack --repack --check-new
at_least "packs rewritten" "$(of packs)" 1
fresh
same_bytes "$SRC" "$MNT"
unmount
expect "uploads left behind" "$(s3 uploads "$BUCKET")" ""
# a set file may name it, in a folder of its own, beside another
printf '{"sources":[{"uri":"s3://%s/packed","at":"a/"},{"uri":"file://%s","at":"b/"}]}' "$BUCKET" "$SRC" >"$T/set.json"
mount_set "$T/set.json" --cache "ssd:$T/third=1GiB"
same_bytes "$SRC" "$MNT/a"
same_bytes "$SRC" "$MNT/b"
unmount
refused 2 "prefix of its own" sampan sync "file://$SRC" "s3://$BUCKET/" --pack 8MiB
refused 2 "is a packed set" sampan sync "s3://$BUCKET/packed" "s3://$BUCKET/again" --pack 8MiB --quiet
expect "made of a packed set" "$(s3 keys "$BUCKET" | grep -c ^again || true)" 0
refused 2 "8MiB to 64MiB" sampan sync "file://$SRC" "s3://$BUCKET/x" --pack 1MiB

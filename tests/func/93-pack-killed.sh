#!/usr/bin/env bash
# A sync into packs that is killed anywhere leaves the version before readable, and the next run ends it.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 100 --size 100000..200000
D="$T/packed"
sampan sync "file://$SRC" "file://$D" --pack 8MiB --quiet
cp -a "$SRC" "$T/before"
for f in "$SRC"/class-000/*; do printf X | dd of="$f" conv=notrunc status=none; touch "$f"; done
for n in 05 10 15 20; do
    "$S" sync "file://$SRC" "file://$D" --pack 8MiB --bwlimit 60MB --quiet >"$T/out" 2>&1 &
    pid=$!
    sleep 0.$n
    kill -9 $pid 2>/dev/null || true
    wait $pid 2>/dev/null || true
done
mount_set "file://$D"
cmp <(sums "$MNT") <(sums "$T/before") || cmp <(sums "$MNT") <(sums "$SRC") || fail "neither the old version nor the new one"
unmount
sampan sync "file://$SRC" "file://$D" --pack 8MiB --quiet
mount_set "file://$D" --cache "ssd:$T/second=1GiB"
same_bytes "$SRC" "$MNT"
unmount
# what no version needs goes, once it is an hour old
head -c 1000 /dev/zero >"$D/.sampan/packs/$(printf '0%.0s' {1..32})"
orphan="$D/.sampan/catalog-$(printf '0%.0s' {1..64})" young="$D/.sampan/catalog-$(printf '1%.0s' {1..64})"
echo >"$orphan"
find "$D/.sampan" -type f -exec touch -d '-2 hours' {} +
echo >"$young" # another run's, maybe, that is about to be named
before=$(find "$D/.sampan/packs" -type f | wc -l)
sampan sync "file://$SRC" "file://$D" --pack 8MiB --json >"$T/out"
at_least "packs removed" "$(field packs_deleted <"$T/out")" 1
expect "packs" "$(find "$D/.sampan/packs" -type f | wc -l)" $((before - $(field packs_deleted <"$T/out")))
[ ! -e "$orphan" ] || fail "a catalog that nothing names stays"
for name in $(field catalog <"$D/.sampan/packed") $(field previous <"$D/.sampan/packed") "${young##*-}"; do
    [ -e "$D/.sampan/catalog-$name" ] || fail "a catalog is gone: $name"
done
mount_set "file://$D" --cache "ssd:$T/other=1GiB"
same_bytes "$SRC" "$MNT"
unmount
# a byte that rots in a pack is found by the sample's sum, and no wrong byte is given out
pack=$(find "$D/.sampan/packs" -type f -size +1M | head -1)
printf '\377\376\375' | dd of="$pack" bs=1 seek=300000 conv=notrunc status=none
mount_set "file://$D" --cache "ssd:$T/third=1GiB"
find "$MNT" -type f -exec sh -c 'cmp -s "$1" "$0/${1#'"$MNT"'/}" || { cat "$1" >/dev/null 2>&1 && echo "$1"; }' "$SRC" {} \; >"$T/wrong" 2>"$T/wrong.err"
expect "wrong bytes handed out" "$(cat "$T/wrong")" ""
unmount

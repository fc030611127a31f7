#!/usr/bin/env bash
# --profile shards: a whole object that the set names no more goes, with its last reader at the latest; evict and clear
# drop whole objects as they drop samples in packs.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --spec '{"0.tar": 9000001, "1.tar": 9000000, "2.tar": 9000002}'
mount_set "file://$SRC" --profile shards
told() { [ "$(status cache.samples) $(status cache.bytes)" = "$1" ]; }
read_all() { cat "$MNT"/*.tar | cmp - <(cat "$SRC"/*.tar) || fail "wrong bytes"; }
objects() { find "$CACHE/shards" -name '*.data' 2>/dev/null | wc -l; }
read_all
until_true 3 told "3 27000003" || fail "$(sampan status "$MNT" --json)"
kept=$(objects) # 0 where the kernel has no passthrough
cp "$SRC/1.tar" "$T/old"
exec 5<"$MNT/1.tar"
for round in 1 2 3; do
    head -c 9000000 /dev/urandom >"$SRC/1.tar"
    sampan scan "$MNT" --quiet >"$T/scanned"
    until_true 3 cmp -s "$SRC/1.tar" "$MNT/1.tar" || fail "round $round: the old bytes are still shown"
done
[ "$(head -c 9000000 <&5 | cmp - "$T/old" && echo same)" = same ] || [ "$kept" = 0 ] || fail "an open file has other bytes"
exec 5<&-
until_true 3 told "3 27000003" || fail "what is named no more is told as cached: $(sampan status "$MNT" --json)"
fewer() { [ "$(objects)" = "$kept" ]; }
until_true 3 fewer || fail "whole objects that nobody reads: $(ls "$CACHE/shards")"
at_least "room made" "$(sampan evict "$MNT" --to 20M --json | field samples)" 1
at_least "room" $((20000000 - $(sampan status "$MNT" --json | field cache.bytes))) 0
read_all
sampan clear "$MNT" --json >"$T/cleared"
expect "left" "$(status cache.samples) $(objects)" "0 0"
read_all

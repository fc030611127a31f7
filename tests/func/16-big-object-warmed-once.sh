#!/usr/bin/env bash
# --profile shards: a warmup brings what is missing and nothing else, also where the cache has no room for all of it twice;
# with --verify it reads what it found, and what is damaged comes anew.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --spec '{"0.tar": 21000001, "1.tar": 20000000, "2.tar": 22000000}'
mount_set "file://$SRC" --profile shards --cache "ssd:$CACHE=96M" --free-space 0
whole() { [ "$(status cache.bytes)" = "$1" ]; }
for i in 0 1; do cmp "$SRC/$i.tar" "$MNT/$i.tar"; done
until_true 30 whole 41000001 || fail "two were read: $(sampan status "$MNT" --json)"
head -c 100000 "$MNT/2.tar" >"$T/head" # begun: its first blocks are here, and the others come
sampan warmup "$MNT" --json >"$T/warmed" || fail "refused: $(cat "$T/warmed")"
expect "already and fetched" "$(($(field already <"$T/warmed") + $(field fetched <"$T/warmed")))" 3
at_least "already" "$(field already <"$T/warmed")" 2
until_true 30 whole 63000001 || fail "all is warm: $(sampan status "$MNT" --json)"
expect "samples" "$(status cache.samples)" 3
expect "bytes fetched" "$(status fetch.bytes)" 63000001
same_tree "$SRC" "$MNT"
sampan warmup "$MNT" --json --verify >"$T/warmed"
expect "already" "$(field already <"$T/warmed") $(field verified <"$T/warmed")" "3 true"
expect "bytes fetched" "$(status fetch.bytes)" 63000001
damaged=$(ls "$CACHE"/shards/*.data 2>/dev/null | head -n 1)
if [ -n "$damaged" ]; then
    printf x | dd of="$damaged" bs=1 seek=5000000 conv=notrunc status=none
    sampan warmup "$MNT" --json --verify >"$T/warmed" || fail "not mended: $(cat "$T/warmed")"
    at_least "bytes fetched" "$(status fetch.bytes)" 67000000
    expect "samples" "$(status cache.samples)" 3
    same_tree "$SRC" "$MNT"
fi

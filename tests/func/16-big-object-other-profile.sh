#!/usr/bin/env bash
# Whole objects that a mount with --profile shards left take no room from one with samples, which reads none of them.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --spec '{"s/0.tar": 5000007, "s/1.tar": 4000000, "s/small.idx": 777}'
mount_set "file://$SRC" --profile shards --cache "ssd:$CACHE=12MiB"
case $(status mode) in passthrough*) ;; *) skip "no passthrough here: $(status mode)" ;; esac
told() { cat "$MNT"/s/* >"$T/all" && [ -n "$(find "$CACHE/shards" -name '*.data' -size +4M)" ]; }
until_true 30 told || fail "no whole object: $(ls -l "$CACHE/shards")"
unmount
echo mine >"$CACHE/shards/1.mine"
mount_set "file://$SRC" --cache "ssd:$CACHE=12MiB"
expect "left" "$(ls "$CACHE/shards")" 1.mine
# What the first mount had in packs may lie there still.
at_most "used" "$(status cache.tiers.0.used)" $(($(du -s -B1 "$CACHE" | cut -f1) + 2000000))
sampan warmup "$MNT" --verify --quiet
expect "cached" "$(status cache.samples)" 3
same_tree "$SRC" "$MNT"
unmount
# And the other way round, with less cache: what lies in packs still counts from the first, also beyond the limit.
mount_set "file://$SRC" --profile shards --cache "ssd:$CACHE=8MiB" --free-space 0
exec 5<"$MNT/s/1.tar"
for i in {1..10}; do cmp "$SRC/s/1.tar" "$MNT/s/1.tar" && sleep 0.1; done
exec 5<&-
counted() { [ "$(du -s -B1 "$CACHE" | cut -f1)" -le $(($(status cache.tiers.0.used) + 2000000)) ]; }
until_true 3 counted || fail "not all that it takes is told: $(ls -l "$CACHE" "$CACHE/shards") $(sampan status "$MNT" --json)"
same_tree "$SRC" "$MNT"
unmount
nothing_left

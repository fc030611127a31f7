#!/usr/bin/env bash
# --profile shards: evict --unused-for drops whole objects that nobody had open for so long, also before this mount; what
# is open is used. What clear and --older-than name goes, an open one when it is closed.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --spec '{"0.tar": 5000000, "1.tar": 5000001, "2.tar": 5000002}'
mount_set "file://$SRC" --profile shards
case $(status mode) in passthrough*) ;; *) skip "no passthrough here: $(status mode)" ;; esac
all_told() { cat "$MNT"/*.tar >"$T/read" && [ "$(status shards.filled) $(status cache.bytes)" = "3 15000003" ]; }
until_true 5 all_told || fail "not all of three: $(sampan status "$MNT" --json)"
expect "just read" "$(sampan evict "$MNT" --unused-for 1m --json | field samples)" 0
unmount
for size in 5000000 5000001 5000002; do
    file=$(find "$CACHE/shards" -name '*.data' -size ${size}c)
    [ "$(($(date +%s) - $(stat -c %Y "${file%data}sums")))" -lt 300 ] || fail "the last use is not kept: $(ls -l "$CACHE/shards")"
    [ $size = 5000002 ] || touch -d '2 hours ago' "${file%data}sums"
done
mount_set "file://$SRC" --profile shards
exec 5<"$MNT/1.tar"
expect "too young" "$(sampan evict "$MNT" --unused-for 3h --json | field samples)" 0
expect "old, and not open" "$(sampan evict "$MNT" --unused-for 1h --json | field samples)" 1
expect "bytes" "$(status cache.bytes)" 10000003
[ -z "$(find "$CACHE/shards" -name '*.data' -size 5000000c)" ] || fail "the wrong one went"
exec 5<&-
expect "just closed" "$(sampan evict "$MNT" --unused-for 1h --json | field samples)" 0
same_tree "$SRC" "$MNT"
whole() { [ "$(status cache.bytes)" = "$1" ]; }
until_true 5 whole 15000003 || fail "not all of three: $(sampan status "$MNT" --json)"
exec 5<"$MNT/1.tar"
sampan clear "$MNT" 1.tar --json >"$T/cleared"
sampan evict "$MNT" --older-than 1s --json >"$T/evicted"
cmp "$SRC/1.tar" - <&5
exec 5<&-
until_true 5 whole 0 || fail "what was open when it was cleared stays: $(sampan status "$MNT" --json)"
same_tree "$SRC" "$MNT"

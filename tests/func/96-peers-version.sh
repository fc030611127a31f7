#!/usr/bin/env bash
# A node that came later goes back to a version that it never had: it takes the list from a node that keeps it, gives
# it ids of its own, and shows the same names, times and bytes. What nobody keeps is said so, with what there is.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/peers.sh"
need_mount
make_set --classes 2 --files 5 --odd
mkdir -p "$SRC/empty"
peer_nodes 1 "file://$SRC"
version_of() { sampan status "$T/m$1" --json | field version; }
cp -a "$SRC" "$T/one"
one=$(version_of 0)
same_bytes "$SRC" "$T/m0"
listing "$T/m0" >"$T/listing"
echo "other bytes" >"$SRC/class-000/000001.bin"
echo "a sample that sorts before all others" >"$SRC/class-000/0.bin"
rm "$SRC/class-001/000002.bin"
two=$(sampan scan "$T/m0" --json | field version)
mkdir -p "$T/m1"
on_exit "sampan umount '$T/m1' || umount -l '$T/m1'"
sampan mount "file://$SRC" "$T/m1" --cache "ssd:$T/c1=1GiB" --peer-token-file "$T/token"
expect "a node that came later" "$(version_of 1)" "$two"
same_bytes "$SRC" "$T/m1"
refused 3 "$two" sampan set "$T/m1" "version=$one"
sampan set "$T/m1" "peers=${URL[0]},http://127.0.0.1:1"
refused 1 "127.0.0.1:1" sampan set "$T/m1" "version=$(printf '0%.0s' $(seq 64))"
sampan set "$T/m1" "version=$one"
expect "went back" "$(version_of 1)" "$one"
listing "$T/m1" >"$T/listing.1"
cmp "$T/listing" "$T/listing.1" || fail "other names, sizes or times: $(diff "$T/listing" "$T/listing.1" | head -5)"
cmp "$T/one/class-000/000000.bin" "$T/m1/class-000/000000.bin"
cat "$T/m1/class-000/000001.bin" >"$T/out" 2>"$T/err" && fail "a sample was read that is nowhere any more"
grep -q Stale "$T/err" || fail "not ESTALE: $(cat "$T/err")"
sampan set "$T/m1" version=
expect "went on" "$(version_of 1)" "$two"
same_bytes "$SRC" "$T/m1"
sampan umount "$T/m1"
# It has the version itself now.
sampan mount "file://$SRC" "$T/m1" --cache "ssd:$T/c1=1GiB"
sampan set "$T/m1" "version=$one"
expect "by itself" "$(version_of 1)" "$one"
sampan umount "$T/m1"
unpeer

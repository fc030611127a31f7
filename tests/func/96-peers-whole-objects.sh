#!/usr/bin/env bash
# --profile shards: what a node keeps in whole objects it gives to the others, and what was damaged there it does not.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/peers.sh"
need_mount
mkdir -p "$SRC"
for i in 1 2 3 4; do head -c 9000000 /dev/urandom >"$SRC/$i"; done
start_nginx
sampan scan "$HTTP_URL/" --cache "ssd:$T/scan=1GiB" -o "$T/set.catalog" >"$T/scan.out"
peer_nodes 2 "$HTTP_URL/" --catalog "$T/set.catalog" --strategy sequence --profile shards
all_peers_ok 2
# Sequence: the first half is node 0's. Read until all of it lies in whole objects.
whole() { [ "$(find "$T/c0/shards" -name '*.data' -size +8M | wc -l) $(mount_field 0 shards.filled)" = "2 2" ]; }
mount_field() { sampan status "$T/m$1" --json | field "$2"; }
case $(mount_field 0 mode) in passthrough*) ;; *) skip "no passthrough here: $(mount_field 0 mode)" ;; esac
for i in 1 2; do cmp "$SRC/$i" "$T/m0/$i"; done
until_true 30 whole || fail "no whole objects: $(ls -l "$T/c0/shards")"
: >"$T/log/nginx.access"
for i in 1 2; do cmp "$SRC/$i" "$T/m1/$i"; done
expect "requests to the store" "$(grep -c ' /[12] ' "$T/log/nginx.access")" 0
at_least "bytes from the other" "$(peer_of 1 0 bytes)" 18000000
sampan clear "$T/m1" --json >"$T/cleared"
for x in "$T"/c0/shards/*.data; do printf x | dd of="$x" bs=1 seek=5000000 conv=notrunc status=none; done
for i in 1 2; do cmp "$SRC/$i" "$T/m1/$i"; done
at_least "blocks of the store" "$(grep -c ' /[12] ' "$T/log/nginx.access")" 2
unpeer

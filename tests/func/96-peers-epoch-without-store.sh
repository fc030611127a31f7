#!/usr/bin/env bash
# Four nodes hold a set together, each a share: an epoch in which every node reads everything asks the
# store for nothing (its log says so), and with the store gone every byte is right.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/peers.sh"
need_mount
make_set --classes 4 --files 20
head -c 9000000 /dev/urandom >"$SRC/large.bin" # three units
seq 1 60000 >"$SRC/text"                       # compressed where it is kept
start_nginx
sampan scan "$HTTP_URL/" --cache "ssd:$T/scan=1GiB" -o "$T/set.catalog" >"$T/scan.out"
peer_nodes 4 "$HTTP_URL/" --catalog "$T/set.catalog" --strategy sequence
all_peers_ok 4
for i in 0 1 2 3; do sampan warmup "$T/m$i" --quiet; done
: >"$T/log/nginx.access"
for i in 0 1 2 3; do same_bytes "$SRC" "$T/m$i"; done
expect "requests to the store" "$(wc -l <"$T/log/nginx.access")" 0
stop_nginx
for i in 0 1 2 3; do
    drop_pages "$T/m$i"
    same_bytes "$SRC" "$T/m$i"
    at_least "samples that node $i has from the others" "$(from_peers "$i")" 60
    expect "node $i: errors" "$(reads "$i" errors)" 0
done
unpeer

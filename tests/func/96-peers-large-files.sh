#!/usr/bin/env bash
# Large files that others keep, read by more at once than a node holds blocks for, so that it asks for pieces of them:
# right, and from the others alone.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/peers.sh"
need_mount
mkdir -p "$SRC"
size=9000000 files=8
for i in $(seq $files); do head -c $size /dev/urandom >"$SRC/$i"; done
seq 1 1200000 | head -c $size >"$SRC/$files" # compressed where it is kept
start_nginx
sampan scan "$HTTP_URL/" --cache "ssd:$T/scan=1GiB" -o "$T/set.catalog" >"$T/scan.out"
PEER_CACHE=40MiB # its own half and a bit
peer_nodes 2 "$HTTP_URL/" --catalog "$T/set.catalog" --strategy sequence --memory 64MiB
all_peers_ok 2
for i in 0 1; do sampan warmup "$T/m$i" --quiet; done
: >"$T/log/nginx.access"
readers=()
for i in 0 1; do
    for f in $(seq $files); do
        cmp "$SRC/$f" "$T/m$i/$f" &
        readers+=($!)
    done
done
for p in "${readers[@]}"; do wait "$p"; done
expect "requests to the store" "$(wc -l <"$T/log/nginx.access")" 0
for i in 0 1; do
    expect "node $i: errors" "$(reads "$i" errors)" 0
    at_least "bytes that node $i has from the other" "$(peer_of $i $((1 - i)) bytes)" $size
done
unpeer

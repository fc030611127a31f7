#!/usr/bin/env bash
# With --sampler the samples next in order are here before the reader asks: a cold paced reader mostly hits.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 4 --files 60 --size 20000
start_nginx
start_proxy "$HTTP_URL"
mount_set "$PROXY_URL/" --sampler "paddle-distributed,ranks=1,batch-size=8,shuffle=true,epoch=0"
faults "latency=20ms key=.bin"
sampan bench epoch "$MNT" --sampler "paddle-distributed,ranks=1,batch-size=8,shuffle=true,epoch=0" --rate 100 --json >"$T/bench.json"
expect "samples" "$(field samples <"$T/bench.json")" 240
expect "errors" "$(field errors <"$T/bench.json")" 0
at_most "median read in us where each GET takes 20 ms" "$(field p50_us <"$T/bench.json")" 15000
same_bytes "$SRC" "$MNT"
unmount

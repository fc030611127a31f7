#!/usr/bin/env bash
# sampan plan prints the orders that Paddle and PyTorch have, to the bit, and says what is wrong with a
# SPEC; it asks no store and needs no mount.
. "$SAMPAN_TESTS/lib/common.sh"
plan() { sampan plan "$@"; }
expect "batches" "$(plan --count 11 --sampler random,ranks=3,rank=1,batch-size=2,shuffle=true --print batches | paste -sd'|')" "4 10|9 3"
expect "order" "$(plan --count 10 --sampler torch-loader,epoch=1 --print order | paste -sd' ')" "2 4 7 0 8 9 5 3 6 1"
expect "two epochs" "$(plan --count 10 --sampler torch-loader,epochs=2 --print order | paste -sd' ')" \
    "6 7 1 4 2 0 9 8 3 5 2 4 7 0 8 9 5 3 6 1"
plan --count 1281167 --sampler random,ranks=8,rank=5,batch-size=256,shuffle=true,epoch=89 --json >"$T/plan.json"
expect "crc32" "$(field crc32 <"$T/plan.json")" 7c9b61d0
expect "samples" "$(field samples <"$T/plan.json")" 1281167
expect "ranks" "$(field ranks <"$T/plan.json")" 8
expect "the seventh partition reads at home" "$(field partitions.6.local_reads <"$T/plan.json")" 1.0
# The crc is that of what is printed.
plan --count 1000 --sampler torch-distributed,ranks=4,rank=2,epoch=3,drop-last=true --print order >"$T/order"
expect "crc32 of the printed order" "$("$PYTHON" -c '
import struct, sys, zlib
print("%08x" % zlib.crc32(b"".join(struct.pack("<q", int(line)) for line in open(sys.argv[1]))))' "$T/order")" b3627884
expect "no sample, no line" "$(plan --count 0 --sampler random,shuffle=true --print order)" ""
expect "one sample" "$(plan --count 1 --sampler random,ranks=4,rank=3 --print order)" 0
expect "of 2^31 samples the last share" \
    "$(plan --count 2147483648 --sampler sequence --partitions 4 | awk '$1 == 3 { print $2 }')" 536870912
# Two thousand million samples whose order is plain take no walk.
plan --count 2147483648 --sampler sequence --json >"$T/huge"
expect "crc32 of 2^31 samples in sequence" "$(field crc32 <"$T/huge")" 096260a2
expect "a rank's share of 2^31" \
    "$(plan --count 2147483648 --sampler random,ranks=8,batch-size=64 | awk '$1 == 7 { print $2, $NF }')" "268435456 1.000"
# A resume token goes on where it was, and deals the rest to other ranks once.
token=$(plan --count 11 --sampler random,ranks=3,batch-size=2,shuffle=true --print token --position 2)
expect "rest of rank 2" "$(plan --resume "$token" --sampler sequence,ranks=3,rank=2 --print order | paste -sd' ')" "0 5"
expect "and of as many as before" "$(plan --resume "$token" --sampler sequence,rank=2 --print order | paste -sd' ')" "0 5"
expect "rest for one rank" "$(plan --resume "$token" --sampler sequence,ranks=1 --print order | paste -sd' ')" "1 7 9 3 5"
refused 2 "there are 3 ranks, counted from 0" plan --resume "$token" --sampler sequence,rank=3
refused 2 "its sum is wrong" plan --resume "${token%?}x"
refused 2 'unknown name \(known: sequence' plan --count 5 --sampler squence
refused 2 'unknown key "seed" \(it knows: ranks rank' plan --count 5 --sampler sequence,seed=1
refused 2 "ranks=0: want 1" plan --count 5 --sampler random,ranks=0
refused 2 "batch-size=0: want 1" plan --count 5 --sampler random,batch-size=0
refused 2 "there are 4 ranks, counted from 0" plan --count 5 --sampler random,ranks=4,rank=4
refused 2 "epoch=-1: want a whole number" plan --count 5 --sampler random,epoch=-1
refused 2 "partitions: 0: want 1" plan --count 5 --partitions 0
refused 2 "there are only 5 samples" plan --count 5 --partitions 6
refused 2 "there are 2 partitions, counted from 0" plan --count 5 --partition 2/2
refused 2 "want I/P" plan --count 5 --partition 2
refused 4 "at most 4294967295 samples" plan --count 4294967296
refused 2 "want one of: a SET" plan
refused 3 "sampan scan" plan "file://$SRC" --cache-dir "$T/nothing"
nothing_left

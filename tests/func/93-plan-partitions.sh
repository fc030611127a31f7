#!/usr/bin/env bash
# sampan plan divides a set: shares are disjoint and complete, `sequence` is even in bytes, repeats are
# kept twice, and what a partition keeps is said to fit or not. A URI, a catalog file and a mount agree.
. "$SAMPAN_TESTS/lib/common.sh"
make_set --classes 3 --files 20
sampan scan "file://$SRC" --cache "ssd:$CACHE=1GiB" -o "$T/set.catalog" >"$T/scan"
plan() { sampan plan "$T/set.catalog" "$@"; }
n=$(plan --json | field samples)
plan --sampler random,ranks=4,batch-size=8,shuffle=true --print partition >"$T/all"
expect "a line a sample, in order" "$(cut -f1 "$T/all")" "$(seq 0 $(($(plan --print order | wc -l) - 1)))"
: >"$T/parts"
for i in 0 1 2 3; do
    plan --sampler random,ranks=4,batch-size=8,shuffle=true --partition $i/4 --print partition >"$T/part$i"
    awk -F'\t' -v i=$i '{ split($2, k, ","); if (k[1] == i) print }' "$T/part$i" >>"$T/parts"
    # What rank i reads is what partition i keeps.
    plan --sampler "random,ranks=4,rank=$i,batch-size=8,shuffle=true" --print order | sort -un >"$T/reads$i"
    cmp <(cut -f1 "$T/part$i") "$T/reads$i" || fail "partition $i does not keep what its rank reads"
done
cmp <(sort -n "$T/parts") "$T/all" || fail "the shares are not the set"
# The same from the owner's folder and by mount.
sampan plan "file://$SRC" --cache "ssd:$CACHE=1GiB" --strategy hash --partitions 3 --json >"$T/by-uri"
plan --strategy hash --partitions 3 --json >"$T/by-file"
expect "hash shares by URI and by file" "$(field partitions <"$T/by-uri" | sed 's/"fits": true/"fits": null/g')" "$(field partitions <"$T/by-file")"
"$PYTHON" - "$T/by-file" "$n" <<'PY' || fail "hash shares are not the whole set, or not even"
import json, sys
plan = json.load(open(sys.argv[1]))
parts = plan["partitions"]
assert sum(p["samples"] for p in parts) == plan["samples"] == int(sys.argv[2]), plan
assert sum(p["bytes"] for p in parts) == plan["bytes"], plan
assert all(p["samples"] > 0 for p in parts), plan
PY
# Ranges: contiguous, and no partition is more than one sample off its part of the bytes.
plan --strategy sequence --partitions 4 --json >"$T/ranges"
largest=$(find "$SRC" -type f -printf '%s\n' | sort -n | tail -1)
"$PYTHON" - "$T/ranges" "$largest" <<'PY' || fail "the ranges are not even in bytes"
import json, sys
plan = json.load(open(sys.argv[1]))
even = plan["bytes"] / 4
assert all(abs(p["bytes"] - even) <= 2 * int(sys.argv[2]) for p in plan["partitions"]), plan
PY
plan --strategy sequence --partitions 4 --print partition | cut -f2 | uniq | paste -sd' ' >"$T/order"
expect "contiguous ranges" "$(cat "$T/order")" "0 1 2 3"
# A growing number of partitions moves to the newcomer only.
plan --strategy hash --partitions 3 --print partition >"$T/three"
plan --strategy hash --partitions 4 --print partition >"$T/four"
expect "moved elsewhere than to the newcomer" "$(paste "$T/three" "$T/four" | awk '$2 != $4 && $4 != 3' | wc -l)" 0
# Room.
plan --cache ssd:/nowhere=1GiB --json | field partitions.0.fits | has true || fail "1 GiB does not fit the set"
plan --cache ssd:/nowhere=1K --json | field partitions.0.fits | has false || fail "1 KiB fits the set"
# Every rank reads everything: a quarter is at home, and plan says so.
at_most "local reads of four partitions of a shuffled whole" "$(plan --sampler torch-loader --partitions 4 --json | field local_reads)" 0.3
refused 2 'only the sampler "local"' plan --strategy local
nothing_left

#!/usr/bin/env bash
# bench epoch and bench meta measure a mounted folder and print the promised fields.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set
mount_set "file://$SRC"
sampan bench epoch "$MNT" --json >"$T/epoch.json"
for name in samples seconds samples_per_s bytes_per_s p50_us p99_us max_us errors; do
    field $name <"$T/epoch.json" >/dev/null || fail "no $name: $(cat "$T/epoch.json")"
done
expect "samples" "$(field samples <"$T/epoch.json")" 100
sampan bench epoch "$SRC" --threads 2 --json | field samples_per_s >/dev/null || fail "a plain folder can be measured too"
mkdir "$T/single"
echo x >"$T/single/x"
for bench in "epoch $T/single" "fetch file://$T/single"; do
    # shellcheck disable=SC2086 # words
    sampan bench $bench >"$T/one"
    grep -Eq '^1 (sample|object) in .*, 0 errors$' "$T/one" || fail "bench $bench says: $(cat "$T/one")"
done
refused 1 "read the order $T: Is a directory" sampan bench epoch "$MNT" --order "$T"
# An order that would be another than the one asked for is refused.
find "$SRC" -name '*.bin' -printf '%P\n' | head -5 >"$T/list"
refused 2 "--sampler: no list=" sampan bench epoch "$MNT" --sampler "sequence,list=$T/list"
refused 2 "--sampler: no list=" sampan bench au "$MNT" --model cosmoflow --sampler "torch-distributed,list=$T/list"
for order in shuffle "$T/list"; do
    refused 2 "--sampler: .*not with --order" sampan bench epoch "$MNT" --sampler torch-random --order "$order"
done
sampan bench meta "$MNT" --json | field seconds >/dev/null || fail "bench meta"
expect "objects of its source" "$(sampan bench fetch "$MNT" --json | field objects)" 100
unmount
# What measured nothing is no measurement.
refused 3 "$MNT: nothing to read" sampan bench epoch "$MNT"
: >"$T/list"
refused 3 "$SRC: nothing to read" sampan bench epoch "$SRC" --order "$T/list" --json

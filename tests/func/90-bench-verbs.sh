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
refused 1 "read the order $T: Is a directory" sampan bench epoch "$MNT" --order "$T"
sampan bench meta "$MNT" --json | field seconds >/dev/null || fail "bench meta"
expect "objects of its source" "$(sampan bench fetch "$MNT" --json | field objects)" 100
unmount

#!/usr/bin/env bash
# A node's share of a divided set is that of the version that is served: it is brought in full where the cache has room for
# one share and a half, also of an order, which keeps to its version until its next epoch; and the status tells it.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
mkdir -p "$SRC/c"
publish() { # BYTES of each sample
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do head -c "$1" /dev/urandom >"$SRC/c/$i"; done
}
is_of() { [ "$(($(status partition.bytes) / $(status partition.samples)))" = "$1" ]; }
for sampler in "" "torch-distributed,ranks=2,ranks-per-node=1,shuffle=false"; do
    publish 500000
    mount_set "file://$SRC" --cache "ssd:$CACHE${sampler:+-order}=6MiB" --partition 0/2 ${sampler:+--sampler "$sampler"}
    sampan warmup "$MNT" >"$T/out"
    for size in 500001 500002 500003; do
        publish $size
        sampan scan "$MNT" >"$T/out"
        sampan warmup "$MNT" --json >"$T/warm" 2>"$T/err" || fail "$sampler $size: $(cat "$T/warm" "$T/err")"
        expect "failed" "$(field failed <"$T/warm")" 0
        [ -z "$sampler" ] || sampan set "$MNT" epoch=$((size - 500000))
        until_true 10 is_of $size || fail "$sampler: the share is of $(status partition.bytes) bytes, $(status partition.samples) samples"
        expect "cached of the share" "$(status partition.cached)" "$(status partition.samples)"
        expect "bytes of the share" "$(status partition.cached_bytes)" "$(status partition.bytes)"
    done
    # and by reads alone
    publish 500004
    sampan scan "$MNT" >"$T/out"
    [ -z "$sampler" ] || sampan set "$MNT" epoch=9
    until_true 10 is_of 500004 || fail "$sampler: the share is of $(status partition.bytes) bytes"
    kept() {
        same_bytes "$SRC" "$MNT"
        drop_pages "$MNT"
        [ "$(status partition.cached)" = "$(status partition.samples)" ]
    }
    until_true 30 kept || fail "$sampler: kept of the share: $(status partition.cached) of $(status partition.samples)"
    unmount
done

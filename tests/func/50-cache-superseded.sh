#!/usr/bin/env bash
# A cache that is full of what no served version names takes the samples of the one that is served: by a warmup, by reads
# alone, and after the versions changed while nothing was mounted. So does one in which all but a little was dropped.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
mkdir -p "$SRC/c"
publish() { # N: other content of all samples
    for i in 1 2 3 4 5 6 7 8; do head -c 1000000 /dev/urandom >"$SRC/c/$i"; done
}
warm() { # the samples of the served version are all local
    sampan warmup "$MNT" --json >"$T/warm" 2>"$T/err" || fail "$1: $(cat "$T/warm" "$T/err")"
    expect "$1: failed" "$(field failed <"$T/warm")" 0
}
publish
cached() { getfattr --absolute-names -n user.sampan.cached "$MNT"/c/* | grep -c '="yes"' || true; }
counts_right() { [ "$(status cache.samples)" = "$(cached)" ]; } # those of the served version alone
mount_set "file://$SRC" --cache "ssd:$CACHE=20MiB"
for version in 1 2 3 4 5 6; do
    same_bytes "$SRC" "$MNT"
    warm "version $version"
    expect "samples cached" "$(status cache.samples)" 8
    publish
    sampan scan "$MNT" >"$T/out"
    until_true 20 counts_right || fail "superseded samples are counted: $(status cache.samples), of which are served: $(cached)"
done
at_most "bytes in the cache's folder" "$(du -sb --apparent-size "$CACHE" | cut -f1)" $((20 * 1048576))

# by reads alone
local_samples() { # once all were read, another mount reads them without the store
    same_bytes "$SRC" "$MNT"
    unmount
    mount_set "file://$SRC" --cache "ssd:$CACHE=20MiB"
    same_bytes "$SRC" "$MNT"
    [ "$(status fetch.bytes)" = 0 ]
}
for version in 7 8 9; do
    until_true 30 local_samples || fail "version $version is never kept: $(sampan status "$MNT")"
    publish
    sampan scan "$MNT" >"$T/out"
done
unmount

# and where nobody was told
publish
sampan scan "file://$SRC" --cache "ssd:$CACHE=20MiB" >"$T/out"
mount_set "file://$SRC" --cache "ssd:$CACHE=20MiB"
until_true 30 local_samples || fail "not kept: $(sampan status "$MNT")"
publish
unmount
sampan scan "file://$SRC" --cache "ssd:$CACHE=20MiB" >"$T/out"
mount_set "file://$SRC" --cache "ssd:$CACHE=20MiB"
until_true 20 counts_right || fail "superseded samples are counted: $(status cache.samples), of which are served: $(cached)"
warm "an unknown version"
expect "samples cached" "$(status cache.samples)" 8
unmount

# What was dropped beside what lives is room.
CACHE=$T/cache-dropped
rm -r "$SRC/c"
for c in 0 1 2 3 4 5 6 7 8 9; do
    mkdir "$SRC/c$c"
    for i in 0 1 2 3 4 5 6 7 8 9; do head -c 100000 /dev/urandom >"$SRC/c$c/$i"; done
done
mount_set "file://$SRC" --cache "ssd:$CACHE=8MiB"
sampan warmup "$MNT" c0 c1 c2 c3 c4 >"$T/out"
for turn in 1 2 3 4 5 6 7 8 9 10 11 12; do
    sampan clear "$MNT" c1 c2 c3 c4 >"$T/out"
    sampan warmup "$MNT" c1 c2 c3 c4 --json >"$T/out" || fail "turn $turn: $(cat "$T/out")"
done
sampan clear "$MNT" c1 c2 c3 c4 >"$T/out"
sampan warmup "$MNT" c5 c6 c7 c8 --json >"$T/out" || fail "others: $(cat "$T/out")"
unmount
nothing_left

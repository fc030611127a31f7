#!/usr/bin/env bash
# What is in flight of an older version when another one is served already is not counted as cached, and makes way.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
mkdir -p "$SRC/d"
for i in 1 2 3; do head -c 3000000 /dev/urandom >"$SRC/d/$i"; done
start_nginx "limit_rate 400k;"
mount_set "$HTTP_URL/" --cache "ssd:$CACHE=16MiB" # not for both versions
readers=()
for i in 1 2 3; do
    cat "$MNT/d/$i" >"$T/old-$i" 2>"$T/err-$i" &
    readers+=($!)
done
in_flight() { [ "$(status fetch.in_flight)" = 3 ]; }
until_true 10 in_flight || fail "not in flight: $(sampan status "$MNT" --json)"
for i in 1 2 3; do
    head -c 3000001 /dev/urandom >"$T/new" # another size: another version, also within a second
    mv "$T/new" "$SRC/d/$i" # who is being answered has the old one
done
sampan scan "$MNT" >"$T/out"
wait "${readers[@]}" || true
cached() { # of the served version's
    "$PYTHON" -c 'import os, sys
print(sum(os.getxattr(f"{sys.argv[1]}/d/{i}", "user.sampan.cached") == b"yes" for i in "123"))' "$MNT"
}
counts_right() { [ "$(status cache.samples)" = "$(cached)" ]; } # what lies ahead of a reader is the served version's
came() { [ "$(status cache.bytes)" -ge 9000000 ]; }
until_true 10 came || fail "the older version's bytes are not kept: $(status cache.bytes)"
until_true 10 counts_right || fail "superseded samples are counted: $(status cache.samples), of which are served: $(cached)"
sampan warmup "$MNT" >"$T/out"
expect "samples cached" "$(status cache.samples)" 3
unmount
mount_set "$HTTP_URL/" --cache "ssd:$CACHE=16MiB"
expect "after a mount" "$(status cache.samples)" 3

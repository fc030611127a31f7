#!/usr/bin/env bash
# The same for a plain web server, whose index pages name no versions: its answers' ETags tell, of each
# block of a large object too.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --spec '{"c/a.bin": 20000, "c/b.bin": 20000, "c/gone.bin": 20000, "c/same.bin": 20000, "c/big.bin": 9000000}'
start_nginx
replaced() { # NAME SIZE : the same size, and the same time as an index page tells it
    head -c "$2" /dev/zero | tr '\0' z >"$T/new"
    touch -r "$SRC/c/$1" "$T/new"
    touch -d "@$(($(stat -c %Y "$SRC/c/$1") + 1))" "$T/new"
    mv "$T/new" "$SRC/c/$1"
}
stale() { # NAME OFFSET
    dd if="$MNT/c/$1" of="$T/out" bs=4096 count=1 skip="$2" iflag=skip_bytes 2>"$T/err" && fail "$1 was read"
    grep -q "Stale" "$T/err" || fail "$1: not ESTALE: $(cat "$T/err")"
}
try() { # SET
    mount_set "$1" --cache "ssd:$CACHE-$((++n))=1GiB"
    cp "$SRC/c/big.bin" "$T/big"
    cmp -n 4096 "$T/big" "$MNT/c/big.bin"
    replaced a.bin 20000
    replaced big.bin 9000000
    mv "$SRC/c/gone.bin" "$T/gone"
    stale a.bin 0
    stale gone.bin 0
    stale big.bin 8500000
    cmp -n 4096 "$T/big" "$MNT/c/big.bin" || fail "what was read before changed"
    cmp "$SRC/c/same.bin" "$MNT/c/same.bin"
    mv "$T/gone" "$SRC/c/gone.bin"
    sampan scan "$MNT" --json >"$T/scan.json"
    expect "changed" "$(field changed <"$T/scan.json")" 2
    same_bytes "$SRC" "$MNT"
    unmount
}
n=0
try "$HTTP_URL/"
stop_nginx
start_nginx "etag off;"
try "$HTTP_URL/"
stop_nginx

#!/usr/bin/env bash
# An object replaced at the source reads ESTALE, never mixed bytes; a scan publishes the new version.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 6 --size 20000
mount_set "file://$SRC"
cat "$MNT/class-000/000001.bin" >"$T/before"
for f in 000001 000002; do
    "$PYTHON" -c 'import sys; open(sys.argv[1], "wb").write(b"N" * 20000)' "$SRC/class-000/$f.bin"
done
cmp "$T/before" "$MNT/class-000/000001.bin" || fail "a cached sample changed under its version"
code=0
cat "$MNT/class-000/000002.bin" >"$T/out" 2>"$T/err" || code=$?
expect "exit of cat" $code 1
grep -q "Stale" "$T/err" || fail "not ESTALE: $(cat "$T/err")"
expect "bytes delivered" "$(stat -c %s "$T/out")" 0
at_least "errors" "$(status reads.errors)" 1
sampan scan "$MNT" --json >"$T/scan.json"
expect "changed" "$(field changed <"$T/scan.json")" 2
same_bytes "$SRC" "$MNT"
unmount

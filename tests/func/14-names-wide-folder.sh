#!/usr/bin/env bash
# One folder of 100 000 entries (1 000 000 with SLOW=1) lists completely, twice, and its ends are read.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
n=100000
[ -z "${SLOW:-}" ] || n=1000000
"$PYTHON" - "$SRC/manifest.tsv" "$n" <<'PY'
import sys
with open(sys.argv[1], "w") as out:
    for i in range(int(sys.argv[2])):
        out.write(f"wide/{i:08d}.bin\t16\t1700000000\n")
PY
mkdir "$SRC/wide"
for i in 0 $((n / 2)) $((n - 1)); do printf 'sample %08d\n' "$i" >"$SRC/wide/$(printf %08d "$i").bin"; done
start_nginx
mount_set "$HTTP_URL/manifest.tsv"
"$PYTHON" - "$MNT/wide" "$n" <<'PY'
import os, sys
where, n = sys.argv[1], int(sys.argv[2])
for _ in range(2):
    names = sorted(e.name for e in os.scandir(where))
    assert len(names) == n and len(set(names)) == n, len(names)
    assert names[0] == "00000000.bin" and names[-1] == f"{n - 1:08d}.bin"
PY
for i in 0 $((n / 2)) $((n - 1)); do cmp "$SRC/wide/$(printf %08d "$i").bin" "$MNT/wide/$(printf %08d "$i").bin"; done
at_most "resident bytes" "$(status memory.resident)" $((128 << 20))
unmount

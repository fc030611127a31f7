#!/usr/bin/env bash
# An object of many blocks gives right bytes at any place, in any order, from the store and from the cache.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --spec '{"big/a.bin": 21000011, "big/exact.bin": 8388608, "big/plus.bin": 4194305}'
use_s3
s3 put "$BUCKET" "$SRC"
mount_set "s3://$BUCKET/"
cat >"$T/preads.py" <<'PY'
import os, random, sys
src, mnt, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
rng = random.Random(seed)
for name in ("a.bin", "exact.bin", "plus.bin"):
    want = open(f"{src}/big/{name}", "rb").read()
    fd = os.open(f"{mnt}/big/{name}", os.O_RDONLY)
    places = [0, len(want) - 1, 4194303, 4194304, 4194305] + [rng.randrange(len(want)) for _ in range(40)]
    for off in places:
        n = rng.choice((1, 4096, 131072, 700000))
        assert os.pread(fd, n, off) == want[off:off + n], f"{name} {off} {n}"
PY
"$PYTHON" "$T/preads.py" "$SRC" "$MNT" 1
same_bytes "$SRC" "$MNT"
drop_pages
"$PYTHON" "$T/preads.py" "$SRC" "$MNT" 2
unmount

#!/usr/bin/env bash
# A byte that rots in a pack is noticed, fetched again and counted; no reader sees it.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 20 --size 50000..60000
start_nginx
mount_set "$HTTP_URL/"
warm_all
unmount
"$PYTHON" - "$CACHE" <<'PY'
import os, sys
biggest = max((os.path.join(at, f) for at, _, files in os.walk(sys.argv[1]) for f in files if "index" not in f),
              key=lambda p: os.stat(p).st_blocks)
with open(biggest, "r+b") as pack:
    size = os.path.getsize(biggest)
    for at in range(200000, min(size, 1500000), 300000):
        pack.seek(at)
        byte = pack.read(1)
        pack.seek(at)
        pack.write(bytes([byte[0] ^ 0x10]))
print("spoiled", biggest, size)
PY
mount_set "$HTTP_URL/"
drop_pages
same_bytes "$SRC" "$MNT"
at_least "repaired" "$(status reads.corrupt_repaired)" 1
expect "errors" "$(status reads.errors)" 0
drop_pages
repaired=$(status reads.corrupt_repaired)
same_bytes "$SRC" "$MNT"
expect "repaired once only" "$(status reads.corrupt_repaired)" "$repaired"
unmount

#!/usr/bin/env bash
# The power goes while a folder is synced to: run again, the same command makes it the same as the source. On ext4, the
# disk has names and sizes of new files long before their bytes.
. "$SAMPAN_TESTS/lib/common.sh"
need_root "mounts a small disk"
mkdir -p "$T/disk" "$T/after"
truncate -s 200M "$T/image"
mkfs.ext4 -q "$T/image" 2>"$T/mkfs" || skip "$(head -1 "$T/mkfs")"
mount -o loop,commit=1 "$T/image" "$T/disk" 2>/dev/null || skip "a disk cannot be mounted here"
on_exit "umount '$T/disk'"

"$PYTHON" - "$SRC" <<'PY'
import os, sys
os.makedirs(sys.argv[1], exist_ok=True)
for name, content in [(f"b{i:02}", os.urandom(150000)) for i in range(20)] + [
        ("a-ends-in-a-hole", os.urandom(200000) + bytes(3 << 20)), ("c-large", os.urandom(20 << 20)), ("z", os.urandom(24 << 20))]:
    with open(f"{sys.argv[1]}/{name}", "wb") as f:
        f.write(content)
PY
"$S" sync "file://$SRC" "file://$T/disk/dst" --quiet --threads 1 --bwlimit 10MB 2>"$T/cut" &
until_true 30 test -e "$T/disk/dst/c-large" || fail "nothing is copied: $(cat "$T/cut")"
command kill -STOP $!
sleep 2.5 # names and sizes are on the disk, and the pages wait
cp --sparse=always "$T/image" "$T/image-after"
command kill -KILL $!
mount -o loop "$T/image-after" "$T/after"
on_exit "umount '$T/after'"
[ ! -e "$T/after/dst/z" ] || fail "it was over already"
sampan sync "file://$SRC" "file://$T/after/dst" --quiet 2>"$T/again"
same_tree "$SRC" "$T/after/dst"

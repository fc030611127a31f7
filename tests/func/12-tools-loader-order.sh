#!/usr/bin/env bash
# The walk of torch's ImageFolder and Paddle's DatasetFolder finds the same samples, in the same order.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 6 --files 9
mount_set "file://$SRC"
"$PYTHON" - "$SRC" "$MNT" <<'PY'
import os, sys
def image_folder(root):
    classes = sorted(e.name for e in os.scandir(root) if e.is_dir())
    found = []
    for index, name in enumerate(classes):
        for at, _, files in sorted(os.walk(os.path.join(root, name), followlinks=True)):
            for file in sorted(files):
                found.append((os.path.relpath(os.path.join(at, file), root), index))
    return found
src, mnt = map(image_folder, sys.argv[1:])
assert src == mnt and len(src) == 54, (src[:3], mnt[:3])
for entry in os.scandir(os.path.join(sys.argv[2], "class-000")):
    assert entry.is_file() and entry.stat().st_size == os.stat(entry.path).st_size and entry.inode() == entry.stat().st_ino
PY
unmount

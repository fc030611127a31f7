#!/usr/bin/env bash
# A set file joins several sources into one tree.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 4
mkdir -p "$T/all/train" "$T/more"
"$PYTHON" "$SAMPAN_TESTS/lib/make-set.py" "$T/more" --seed 7 --classes 1 --files 3
cat >"$T/set.json" <<SET
{"sources":[{"uri":"file://$SRC","at":"train/"},{"uri":"file://$T/more","at":"val/extra/"}]}
SET
mkdir -p "$T/all/val"
cp -a "$SRC/." "$T/all/train"
cp -a "$T/more" "$T/all/val/extra"
mount_set "$T/set.json"
same_tree "$T/all" "$MNT"
unmount

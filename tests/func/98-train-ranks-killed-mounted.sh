#!/usr/bin/env bash
# As 98-train-ranks-killed, with checkpoints on a writable mount: what its store has is whole, too, and in the end the same bits.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
mkdir "$T/store"
mount_writable "file://$T/store"
"$PYTHON" "$SAMPAN_TESTS/torture/torture.py" --short --jobs 1 --cuts 15 --seed "$(date +%j)" --points 2 train saves="$MNT" store="$T/store"

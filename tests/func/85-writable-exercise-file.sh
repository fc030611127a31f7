#!/usr/bin/env bash
# Random operations on one file, every read compared with a model: on a file:// store, stored at each close.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
mkdir -p "$SRC"
mount_writable "file://$SRC"
"$SAMPAN_BUILD/tools/exercise" "$MNT" --ops "${EXERCISE_OPS:-4000}" --seed "${SEED:-$RANDOM}"
file=$(cd "$MNT" && ls)
cp "$MNT/$file" "$T/seen"
unmount
cmp "$T/seen" "$SRC/$file" || fail "the store has something else"

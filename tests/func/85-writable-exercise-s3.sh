#!/usr/bin/env bash
# The same over S3, stored in the background; in the end the object is what was read last.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
use_store # use_s3
mount_writable "$STORE/" --commit background
"$SAMPAN_BUILD/tools/exercise" "$MNT" --ops "${EXERCISE_OPS:-1500}" --seed "${SEED:-$RANDOM}" --size 3000000
file=$(cd "$MNT" && ls)
cp "$MNT/$file" "$T/seen"
unmount
stored cat "$file" | cmp "$T/seen" - || fail "the store has something else"
expect "uploads left behind" "$(stored uploads)" ""

#!/usr/bin/env bash
# Who only writes a file goes past the kernel's pages (Linux 6.18 and later), and no reader sees a byte older than the last
# write that had returned before he asked: by read() and by a mapping, opened before and after the writer, and over a kill.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
use_store # use_s3
mount_writable "$STORE/outputs" --commit background
python3 "$SAMPAN_TESTS/lib/written-while-read.py" "$MNT/numbers" 3 || fail "old bytes"
python3 "$SAMPAN_TESTS/lib/written-while-read.py" "$MNT/numbers" 3 "$(daemon_pid)" || fail "old bytes, with a kill"
# A log of four writers, each with its own lines: all of them, whole, in the order of each.
for w in 1 2 3 4; do
    (for i in $(seq 500); do echo "$w $i of a line"; done >>"$MNT/log") &
    writers+=($!)
done
wait "${writers[@]}"
for w in 1 2 3 4; do
    grep "^$w " "$MNT/log" | cmp - <(seq -f "$w %g of a line" 500) || fail "the lines of $w"
done
[ "$(wc -l <"$MNT/log")" = 2000 ] || fail "$(wc -l <"$MNT/log") lines"
sampan umount "$MNT"
stored cat outputs/log >"$T/lines"
[ "$(sort "$T/lines" | uniq | wc -l)" = 2000 ] || fail "stored otherwise"

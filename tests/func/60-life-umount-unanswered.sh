#!/usr/bin/env bash
# Whose call in a mount is not answered yet holds it with nothing open: umount names that process, too.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
mkdir -p "$SRC"
use_s3_proxy
mount_writable "s3://$BUCKET"
faults stall-head
stat "$MNT/folder/result" >"$T/stat" 2>&1 &
pid=$!
on_exit "kill -9 $pid"
waits() { grep -q request_wait_answer "/proc/$pid/wchan"; }
until_true 10 waits || skip "this kernel does not say where a process sleeps"
refused 4 "busy: .*stat \\(pid $pid\\).*--lazy" sampan umount "$MNT"
is_mounted "$MNT" || fail "gone although it was refused"
kill -9 $pid
wait $pid 2>/dev/null || true
faults
sampan umount "$MNT"
nothing_left

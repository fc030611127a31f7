#!/usr/bin/env bash
# SIGTERM to the daemon unmounts cleanly; a mount in the foreground ends with its terminal's interrupt.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 5
mount_set "file://$SRC"
cat "$MNT"/class-000/* >"$T/x"
kill -TERM "$(daemon_pid)"
gone() { ! is_mounted "$MNT"; }
until_true 20 gone || fail "still mounted after SIGTERM"
nothing_left
"$S" mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB" --foreground &
foreground=$!
on_exit "kill -9 $foreground"
until_true 20 is_mounted "$MNT" || fail "--foreground does not mount"
same_tree "$SRC" "$MNT"
kill -INT $foreground
wait $foreground || true
! is_mounted "$MNT" || fail "still mounted after SIGINT"
nothing_left

#!/usr/bin/env bash
# umount works on a mount whose daemon was killed; the next mount starts as if nothing had been.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 5
mount_set "file://$SRC" --no-keeper
same_tree "$SRC" "$MNT"
kill -9 $(daemons)
until_true 10 no_daemon
sampan umount "$MNT"
! is_mounted "$MNT" || fail "still mounted"
mount_set "file://$SRC"
same_tree "$SRC" "$MNT"
unmount
nothing_left

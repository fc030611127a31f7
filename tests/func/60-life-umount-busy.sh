#!/usr/bin/env bash
# A busy mount is not unmounted: its users are named, exit 4; --lazy takes it away.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 3
mount_set "file://$SRC"
(cd "$MNT/class-000" && exec sleep 300) &
user=$!
on_exit "kill $user"
is_inside() { [ "$(readlink "/proc/$user/cwd")" = "$MNT/class-000" ]; }
until_true 10 is_inside || fail "it does not come in"
refused 4 "$user|busy" sampan umount "$MNT"
grep -q "$user" "$T/refused.err" || fail "the message does not name process $user"
is_mounted "$MNT" || fail "gone although it was refused"
sampan umount "$MNT" --lazy
! is_mounted "$MNT" || fail "still there after --lazy"
kill $user
wait $user 2>/dev/null || true
until_true 20 no_daemon || fail "the daemon outlives its mount"
# From inside: whoever asks is no user of it.
mount_set "file://$SRC"
(cd "$MNT/class-000" && exec "$S" umount "$MNT") || fail "umount is in its own way"
! is_mounted "$MNT" || fail "still there"
until_true 20 no_daemon
nothing_left

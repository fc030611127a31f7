#!/usr/bin/env bash
# A plain user's mount whose keeper and daemon were killed at once while a notification waited: he ends what hangs and the
# mount by one `sampan umount`, without root.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
. "$SAMPAN_TESTS/lib/plain-user.sh"
[ -x "$SAMPAN_BUILD/bin/sampan-keeper" ] || skip "no keeper here"
cp "$SAMPAN_BUILD/bin/sampan-keeper" "$T/bin/"
# The namespace is the script's own. What works in the mount here is root's.
mountpoint -q /sys/fs/fuse/connections || mount -t fusectl none /sys/fs/fuse/connections
echo user_allow_other >"$T/fuse.conf"
chmod 644 "$T/fuse.conf"
[ -e /etc/fuse.conf ] || skip "fusermount3 has no configuration to bind over"
mount --bind "$T/fuse.conf" /etc/fuse.conf
use_writable_store # use_s3 behind the proxy
mount_writable "$STORE/out" --refresh 200ms --allow-other
wait_while_telling out/folder
daemon=$(life) keeper=$(keeper)
kill -STOP "$daemon"
kill -9 "$keeper" "$daemon"
until_true 10 no_daemon
! timeout 2 stat -f "$MNT" >"$T/stat" 2>&1 || fail "a mount without server answers"
kill -0 "$remover" || fail "the remover did not wait for the daemon"
sampan umount --lazy "$MNT"
remover_is_told
! is_mounted "$MNT" || fail "still mounted"
nothing_left

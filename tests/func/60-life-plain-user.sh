#!/usr/bin/env bash
# A user who is not root mounts through fusermount3, reads all, and unmounts.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
need_root "becomes another user"
need_command fusermount3
need_command setpriv
[ -u "$(readlink -f "$(command -v fusermount3)")" ] || skip "fusermount3 is not set-uid"
# In a mount namespace of its own, /dev/fuse has the mode that distributions give it.
own_namespace
mknod -m 666 "$T/fuse" c 10 229
chmod 666 "$T/fuse"
mount --bind "$T/fuse" /dev/fuse
make_set --classes 2 --files 5
cp "$S" "$T/sampan-plain"
chmod 755 "$T/sampan-plain"
chown -R 65534:65534 "$MNT" "$CACHE" "$SAMPAN_RUN_DIR" "$HOME" "$TMPDIR" "$T/log"
as_user() { timeout 60 setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
S=$T/sampan-plain
on_exit "umount -l $MNT"
as_user "$S" mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB"
is_mounted "$MNT" || fail "not mounted"
as_user diff -r "$SRC" "$MNT"
expect "owner" "$(as_user stat -c %u "$MNT/class-000/000000.bin")" 65534
as_user "$S" status "$MNT" --json >"$T/status.json"
[ -n "$(field mode <"$T/status.json")" ] || fail "no mode"
as_user "$S" umount "$MNT"
! is_mounted "$MNT" || fail "still mounted"
until_true 20 no_daemon
nothing_left

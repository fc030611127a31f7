#!/usr/bin/env bash
# A plain user's mount (fusermount3) survives kill -9 of its daemon and of its keeper too.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
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
mkdir -m 755 "$T/bin"
cp "$S" "$(dirname "$S")/sampan-keeper" "$T/bin/"
chown -R 65534:65534 "$MNT" "$CACHE" "$SAMPAN_RUN_DIR" "$HOME" "$TMPDIR" "$T/log"
as_user() { timeout 60 setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
sampan() { as_user "$S" "$@"; }
S=$T/bin/sampan
on_exit "umount -l $MNT"
sampan mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB"
expect "keeper" "$(readlink "/proc/$(keeper)/exe")" "$T/bin/sampan-keeper"
as_user diff -r "$SRC" "$MNT"
kill_life
as_user diff -r "$SRC" "$MNT"
old=$(keeper)
kill -9 "$old"
another() { [ "$(keeper)" != "$old" ]; }
until_true 20 another || fail "no new keeper"
kill_life
as_user find "$MNT" -type f >"$T/found"
expect "files" "$(wc -l <"$T/found")" "$(find "$SRC" -type f | wc -l)"
sampan umount "$MNT"
! is_mounted "$MNT" || fail "still mounted"
until_true 20 no_daemon
nothing_left

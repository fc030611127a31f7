#!/usr/bin/env bash
# A user who is not root mounts through fusermount3, reads all, and unmounts. Others are told whose mount it is.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/plain-user.sh"
sampan mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB"
is_mounted "$MNT" || fail "not mounted"
as_user diff -r "$SRC" "$MNT"
expect "owner" "$(as_user stat -c %u "$MNT/class-000/000000.bin")" 65534
sampan status "$MNT" --json >"$T/status.json"
[ -n "$(field mode <"$T/status.json")" ] || fail "no mode"
sampan umount "$MNT"
! is_mounted "$MNT" || fail "still mounted"
until_true 20 no_daemon
nothing_left

# whose mount it is, who may ask it and who may end it
sampan mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB"
mkdir "$T/roots" "$T/others"
chown 65533 "$T/others"
SAMPAN_RUN_DIR=$T/roots "$S" status >"$T/said" 2>&1
grep -qF "$MNT (user 65534)" "$T/said" || fail "another user's mount is not named: $(cat "$T/said")"
sampan status >"$T/said" 2>&1
! grep -qF "$MNT (user 65534)" "$T/said" || fail "the user's own mount is another's: $(cat "$T/said")"
SAMPAN_RUN_DIR=$T/roots refused 3 "user 65534 made the one that is there" "$S" status "$MNT"
as_other() { setpriv --reuid=65533 --regid=65533 --clear-groups env SAMPAN_RUN_DIR="$T/others" "$@"; }
refused 4 "user 65534 mounted it" as_other "$S" umount "$MNT"
is_mounted "$MNT" || fail "another user ended it"
sampan umount "$MNT"
nothing_left

# XDG_RUNTIME_DIR as su leaves it: another user's folder is not used
as_user env -u SAMPAN_RUN_DIR XDG_RUNTIME_DIR="$T/roots" "$S" status >"$T/said" || fail "another user's folder is in the way"
rmdir /tmp/sampan-65534 2>/dev/null || true

# a device that only root may open: doctor knows before mount does
chmod 600 "$T/fuse"
code=0
sampan doctor >"$T/doctor" || code=$?
expect "exit code of doctor" "$code" 1
grep -q "^wrong .*FUSE device cannot be opened.*chmod 666" "$T/doctor" || fail "doctor says: $(cat "$T/doctor")"
refused 4 "chmod 666 /dev/fuse" sampan mount "file://$SRC" "$MNT" --no-keeper --cache "ssd:$CACHE=1GiB"
nothing_left

chmod 666 "$T/fuse"
# A container without a table of mounts: the helper mounts there and does not unmount. Its reason is told, not that the
# mount is busy.
sampan mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB"
cp -a /etc "$T/etc"
rm -f "$T/etc/mtab"
mount --bind "$T/etc" /etc
refused 4 "fusermount3: .*/etc/mtab: No such file.*ln -s" sampan umount "$MNT"
refused 4 "fusermount3: .*/etc/mtab: No such file.*ln -s" sampan umount --lazy "$MNT"
umount /etc
sampan umount "$MNT"
nothing_left

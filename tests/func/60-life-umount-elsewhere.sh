#!/usr/bin/env bash
# A mount that goes on in another mount namespace, or at a second place, keeps its process: umount says where,
# and who sees it there.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
need_root "makes mount namespaces"
make_set --classes 1 --files 3
mount_set "file://$SRC"
unshare -m bash -c 'mount --make-rprivate / && echo there >"$1" && exec sleep 300' - "$T/there" &
other=$!
on_exit "kill $other"
until_true 20 test -s "$T/there" || fail "no namespace"
refused 1 "process [0-9]+ serves it on: still mounted at $MNT for (sleep|bash) \(pid $other\)" sampan umount "$MNT" --timeout 1s
! is_mounted "$MNT" || fail "it is still mounted here"
kill "$other"
wait "$other" || true
until_true 20 no_daemon || fail "the process outlives the last of its mounts"
mount_set "file://$SRC"
mkdir "$T/second"
mount --bind "$MNT" "$T/second"
on_exit "umount -l '$T/second'"
refused 1 "still mounted at $T/second \(unmount" sampan umount "$MNT" --timeout 1s
same_bytes "$SRC" "$T/second"
umount "$T/second"
until_true 20 no_daemon || fail "the process outlives the last of its mounts"

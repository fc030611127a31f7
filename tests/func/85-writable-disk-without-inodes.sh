#!/usr/bin/env bash
# The cache disk has few inodes: the files of what is stored give theirs to those that are made.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
need_root "mounts a small disk"
mkdir -p "$T/disk" "$SRC"
mount -t tmpfs -o size=64m,nr_inodes=120 none "$T/disk" 2>/dev/null || skip "a small disk cannot be mounted here"
on_exit "umount '$T/disk'"
mount_writable "file://$SRC" --commit close --cache "ssd:$T/disk/cache=1GiB"
made() { # NAME
    echo "$1" >"$MNT/$1"
}
for i in {1..400}; do
    until_true 3 made "f$i" 2>/dev/null || fail "f$i of 400 cannot be made"
done
expect "files stored" "$(find "$SRC" -name 'f*' -size +0 | wc -l)" 400
same_tree "$SRC" "$MNT"
unmount

#!/usr/bin/env bash
# The power goes when a set has been dealt out: each part that has its name is whole, and those that were told of are there.
. "$SAMPAN_TESTS/lib/common.sh"
need_root "mounts a small disk"
mkdir -p "$T/disk" "$T/after"
truncate -s 100M "$T/image"
mkfs.ext4 -q "$T/image" 2>"$T/mkfs" || skip "$(head -1 "$T/mkfs")"
mount -o loop "$T/image" "$T/disk" 2>/dev/null || skip "a disk cannot be mounted here"
on_exit "umount '$T/disk'"
for class in cat dog; do
    mkdir -p "$SRC/$class"
    for i in 1 2 3 4; do head -c 30000 /dev/urandom >"$SRC/$class/$i.jpg"; done
done

"$SAMPAN_BUILD/bin/sampan-train" split --parts 2 "$SRC" "$T/disk/job" >"$T/told"
cp --sparse=always "$T/image" "$T/image-after" # what the disk has at this moment
mount -o loop "$T/image-after" "$T/after"
on_exit "umount '$T/after'"
for part in 0 1; do
    [ -d "$T/after/job/data/$part" ] || fail "part $part is not there: $(ls "$T/after/job/data")"
    same_tree "$T/disk/job/data/$part" "$T/after/job/data/$part"
done

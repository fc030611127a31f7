#!/usr/bin/env bash
# Others fill the cache disk to the last byte: what is stored goes from it, so that files can be made and stored again.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
need_root "mounts a small disk"
mkdir -p "$T/disk" "$SRC"
mount -t tmpfs -o size=64m none "$T/disk" 2>/dev/null || skip "a small disk cannot be mounted here"
on_exit "umount '$T/disk'"

mount_writable "file://$SRC" --commit background --cache "ssd:$T/disk/cache=1GiB"
for i in {0..29}; do
    head -c 1000000 /dev/urandom >"$MNT/old$i"
done
sampan flush "$MNT"
cat /dev/zero >"$T/disk/ballast" 2>/dev/null || true

made() { # NAME
    echo "$1" >"$MNT/$1"
}
until_true 10 made first 2>/dev/null || fail "nothing can be made"
for i in {1..600}; do # more than the journal had room for at first
    made "new$i" || fail "new$i"
done
head -c 3000000 /dev/urandom >"$T/long"
cp "$T/long" "$MNT/long"
sampan flush "$MNT"
expect "files stored" "$(find "$SRC" -name 'new*' -size +0 | wc -l)" 600
cmp "$T/long" "$SRC/long"
same_tree "$SRC" "$MNT"
unmount

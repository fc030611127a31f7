#!/usr/bin/env bash
# A full btrfs, where each change of a page wants room anew: of a stored file that is here in part what is here and what is
# not can be read, a write is refused with ENOSPC, and the daemon lives.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
need_root "mounts a small disk"
command -v mkfs.btrfs >/dev/null || skip "no mkfs.btrfs"
mkdir -p "$T/disk" "$SRC"
truncate -s 160M "$T/image"
mkfs.btrfs -q -M "$T/image" >"$T/mkfs" 2>&1 || fail "$(cat "$T/mkfs")"
mount -o loop "$T/image" "$T/disk" 2>/dev/null || skip "a btrfs cannot be mounted here"
on_exit "umount '$T/disk'"

head -c 40000000 /dev/urandom >"$SRC/big"
cp "$SRC/big" "$T/big"
mount_writable "file://$SRC" --commit background --cache "ssd:$T/disk/cache=1GiB"
exec 5<>"$MNT/big"
dd if="$MNT/big" of="$T/part" bs=1M skip=3 count=1 status=none # now there is a map of it
sync -f "$T/disk"                                            # and on the disk
until_full() { # what was given back meanwhile, too
    cat /dev/zero >>"$T/disk/ballast" 2>/dev/null || true
    sync -f "$T/disk"
}
for i in {1..6}; do until_full; done
cmp "$T/big" "$MNT/big"
dd if=/dev/zero of="$MNT/big" bs=5000 seek=4000 count=1 conv=notrunc status=none 2>"$T/dd" || grep -q "No space left" "$T/dd" ||
    fail "$(cat "$T/dd")"
cmp <(head -c 20000000 "$T/big") <(head -c 20000000 "$MNT/big")
expect "restarts" "$(status restarts)" 0
# each counts once, also where the store was waited for twice
at_most "reads from the disk" "$(status reads.disk)" "$(status reads.total)"
exec 5<&-
rm "$T/disk/ballast"
unmount

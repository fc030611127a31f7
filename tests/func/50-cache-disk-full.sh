#!/usr/bin/env bash
# The cache's disk fills up in the middle of a fill: reads go on, status says so, nothing is corrupt.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
need_root "mounts a small tmpfs"
make_set --classes 2 --files 40 --size 200000..300000
mkdir "$T/small"
mount -t tmpfs -o size=8m tmpfs "$T/small"
on_exit "umount -l $T/small"
mount_set "file://$SRC" --cache "ssd:$T/small/cache=1GiB" --free-space 0
same_tree "$SRC" "$MNT"
drop_pages
same_tree "$SRC" "$MNT"
expect "errors" "$(status reads.errors)" 0
state=$(status cache.tiers.0.state)
[ "$state" != full ] || status cache.tiers.0.why | has "No space left on device .make room on that disk.$" ||
    fail "status says: $(status cache.tiers.0.why)" # a larger --cache is no help
[ "$state" != ok ] || at_most "used of 8 MiB" "$(status cache.tiers.0.used)" $((8 << 20))
unmount
umount "$T/small"
nothing_left

#!/usr/bin/env bash
# --profile shards: where the disk is full, objects that are opened again and again are read right, and the log
# tells of it once.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
need_root "mounts a small tmpfs"
make_set --spec '{"0.tar": 20000000, "1.tar": 20000001, "2.tar": 20000002}'
mkdir "$T/small"
mount -t tmpfs -o size=30m tmpfs "$T/small"
on_exit "umount -l $T/small"
mount_set "file://$SRC" --profile shards --cache "ssd:$T/small/cache=90M" --free-space 0 --log "$T/mount.log"
case $(status mode) in passthrough*) ;; *) skip "no passthrough here: $(status mode)" ;; esac
failed() { [ "$(status shards.failed)" -ge "$1" ]; }
same_tree "$SRC" "$MNT"
until_true 10 failed 1 || fail "the disk is not full: $(sampan status "$MNT" --json)"
for i in {1..20}; do
    head -c 10 "$MNT/2.tar" | cmp - <(head -c 10 "$SRC/2.tar")
    until_true 10 failed $((i + 1)) || fail "open $i tried nothing"
done
same_tree "$SRC" "$MNT"
expect "told" "$(grep -c 'stays incomplete' "$T/mount.log")" 1
expect "errors" "$(status reads.errors)" 0
unmount
umount "$T/small"
nothing_left

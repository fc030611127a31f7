#!/usr/bin/env bash
# --profile shards: whole objects that take more of a disk than is free beside them outlive an upgrade and a new mount.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
need_root "mounts a small tmpfs"
make_set --spec '{"0.tar": 12000000, "1.tar": 12000001, "2.tar": 12000002}'
mkdir "$T/small"
mount -t tmpfs -o size=60m tmpfs "$T/small"
on_exit "umount -l $T/small"
mount_here() { mount_set "file://$SRC" --profile shards --cache "ssd:$T/small/cache=55M" --free-space 8M; }
mount_here
case $(status mode) in passthrough*) ;; *) skip "no passthrough here: $(status mode)" ;; esac
told() { [ "$(status cache.samples) $(status cache.bytes)" = "3 36000003" ]; }
read_all() { cat "$MNT"/*.tar >"$T/read" && told && [ "$(status shards.used)" -ge 36000003 ]; }
until_true 10 read_all || fail "not all of three: $(sampan status "$MNT" --json)"
sampan upgrade "$MNT" >"$T/upgraded"
told || fail "after an upgrade: $(sampan status "$MNT" --json)"
unmount
mount_here
told || fail "mounted again: $(sampan status "$MNT" --json)"
same_tree "$SRC" "$MNT"
expect "bytes fetched" "$(status fetch.bytes)" 0
unmount
umount "$T/small"
nothing_left

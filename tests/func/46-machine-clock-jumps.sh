#!/usr/bin/env bash
# The wall clock jumps by hours and years, back and forth, while a mount serves and fetches: nothing is
# served wrong, nothing stalls, nothing is refetched after a restart.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/broken-disk.sh"
need_mount
make_set --classes 2 --files 40 --size 20000..100000
echo 0 >"$T/clock"
export LD_PRELOAD="$SAMPAN_BUILD/torture/preload.so" TORTURE_CLOCK="$T/clock"
mount_set "file://$SRC" --refresh 1s
unset LD_PRELOAD
for jump in 3600 315360000 -1000000000 0; do
    echo "$jump" >"$T/clock"
    served_right 1
done
expect "errors" "$(status reads.errors)" 0
warm_all
expect "all is cached" "$(status cache.samples)" 80
echo 1000000000 >"$T/clock"
sampan evict "$MNT" --to 1MiB >"$T/evicted"
served_right 1
unmount
mount_set "file://$SRC"
served_right 1
unmount
nothing_left

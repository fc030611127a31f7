#!/usr/bin/env bash
# A mount point or a cache folder below the source would be listed as samples: refused, nothing left.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 3
mkdir "$SRC/here"
ln -s "$SRC/here" "$T/link"
before=$(listing "$SRC" | sha256sum)
for point in "$SRC/here" "$T/link"; do
    refused 2 "mount point.*lies in the source" sampan mount "file://$SRC" "$point" --cache "ssd:$CACHE=1GiB"
    ! is_mounted "$SRC/here" || fail "mounted"
done
refused 2 "cache folder.*lies in the source" sampan mount "file://$SRC" "$MNT" --cache "ssd:$SRC/cache=1GiB"
refused 2 "cache folder.*lies in the source" sampan mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB" --cache "mem:$SRC/m=1GiB"
refused 2 "cache folder.*lies in the source" sampan scan "file://$SRC" --cache "ssd:$SRC/cache=1GiB"
refused 2 "cache folder.*lies in the source" sampan warmup "file://$SRC" --cache "ssd:$SRC/cache=1GiB"
expect "the source" "$(listing "$SRC" | sha256sum)" "$before"
nothing_left
mkdir "$T/srcs"
mount_set "file://$SRC" --cache "ssd:$T/srcs=1GiB" # beside it, with a name that begins the same
unmount

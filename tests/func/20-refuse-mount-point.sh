#!/usr/bin/env bash
# A mount point that is missing, no folder, not empty, or mounted already is refused by name.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 2
try() { sampan mount "file://$SRC" "$1" --cache "ssd:$T/cache-$RANDOM=1GiB"; }
refused 3 "mkdir -p $T/none/below" try "$T/none/below"
refused 3 "does not exist .is the path right" sampan umount "$T/none/below"
refused 2 "name is empty" try ""
refused 3 "$T/none" try "$T/none"
echo x >"$T/file"
refused 2 "$T/file" try "$T/file"
mkdir "$T/full"
echo x >"$T/full/x"
refused 2 "not empty|empty" try "$T/full"
nothing_left
mount_set "file://$SRC"
refused 2 "already|mounted" try "$MNT"
same_tree "$SRC" "$MNT"
unmount
nothing_left

#!/usr/bin/env bash
# Every file of a folder set reads back equal through the mount: paths, sizes, times and bytes; twice.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --odd
mount_set "file://$SRC"
same_tree "$SRC" "$MNT"
expect "samples" "$(status set.samples)" "$(find "$SRC" -type f -printf x | wc -c)"
drop_pages
same_tree "$SRC" "$MNT"
expect "errors" "$(status reads.errors)" 0
unmount
nothing_left

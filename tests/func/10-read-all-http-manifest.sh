#!/usr/bin/env bash
# A manifest (path, size, mtime, sum) names the samples of a web server; sizes and times are its own.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set
write_manifest
start_nginx
mount_set "$HTTP_URL/manifest.tsv"
mv "$SRC/manifest.tsv" "$T/"
same_tree "$SRC" "$MNT"
unmount
nothing_left

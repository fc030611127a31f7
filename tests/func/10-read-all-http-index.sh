#!/usr/bin/env bash
# A folder of a plain web server (nginx index pages) reads back equal.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --odd
s3_names
rm -rf "$SRC/odd/.hidden" # nginx does not list hidden files
start_nginx
mount_set "$HTTP_URL/"
same_bytes "$SRC" "$MNT"
unmount
nothing_left

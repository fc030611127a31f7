#!/usr/bin/env bash
# A prefix or folder with nothing in it is a valid, empty mount.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
mount_set "file://$SRC"
expect "entries" "$(ls -A "$MNT" | wc -l)" 0
expect "samples" "$(status set.samples)" 0
unmount
use_s3
mount_set "s3://$BUCKET/" --cache "ssd:$T/cache2=1GiB"
expect "entries of the bucket" "$(ls -A "$MNT" | wc -l)" 0
unmount
nothing_left

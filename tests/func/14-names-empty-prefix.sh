#!/usr/bin/env bash
# A prefix or folder with nothing in it is a valid, empty mount.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
mount_set "file://$SRC"
expect "entries" "$(ls -A "$MNT" | wc -l)" 0
expect "samples" "$(status set.samples)" 0
unmount
use_s3
mount_set "s3://$BUCKET/no/such/prefix" --cache "ssd:$T/cache2=1GiB" 2>"$T/said"
grep -q "the set is empty: s3://$BUCKET/no/such/prefix" "$T/said" || fail "mount does not say that nothing is there: $(cat "$T/said")"
expect "entries of the bucket" "$(ls -A "$MNT" | wc -l)" 0
unmount
nothing_left

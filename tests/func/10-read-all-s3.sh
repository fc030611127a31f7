#!/usr/bin/env bash
# A bucket with signature checking reads back equal, path style, below a prefix.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --odd
use_s3
s3_names
s3 put "$BUCKET" "$SRC" "sets/one/"
s3 put "$BUCKET" "$SRC" "sets/one-more/"
mount_set "s3://$BUCKET/sets/one"
same_bytes "$SRC" "$MNT"
expect "folders" "$(cd "$MNT" && find . -type d | sort)" "$(cd "$SRC" && find . -type d | sort)"
unmount
nothing_left

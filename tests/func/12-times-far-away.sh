#!/usr/bin/env bash
# A file whose time is beyond what nanoseconds of 64 bits can tell has the last of these, not one before 1970.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
mkdir -p "$SRC"
echo one >"$SRC/far"
touch -d '2400-01-01 00:00:00 UTC' "$SRC/far"
[ "$(stat -c %Y "$SRC/far")" = 13569465600 ] || skip "the file system does not keep such times"
mount_set "file://$SRC"
same_bytes "$SRC" "$MNT"
expect "its time" "$(stat -c %Y "$MNT/far")" 9223372035
unmount
sampan sync "file://$SRC" "file://$T/to" --quiet
expect "the copy's time" "$(stat -c %Y "$T/to/far")" 9223372035
expect "copied again" "$(sampan sync "file://$SRC" "file://$T/to" --update --json | field copied)" 0

#!/usr/bin/env bash
# A cache folder that cannot be written, or that another mount owns, is refused; the owner goes on.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 5
if [ "$(id -u)" = 0 ]; then blocked=/proc/sampan; else blocked=/sampan; fi
refused "[14]" "cache|permission|$blocked" sampan mount "file://$SRC" "$MNT" --cache "ssd:$blocked=1GiB"
nothing_left
mount_set "file://$SRC"
mkdir "$T/second"
refused "[14]" "in use|owned|another|pid" sampan mount "file://$SRC" "$T/second" --cache "ssd:$CACHE=1GiB"
! is_mounted "$T/second" || fail "the second mount is there"
same_tree "$SRC" "$MNT"
unmount
nothing_left

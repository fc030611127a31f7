#!/usr/bin/env bash
# Modes are 0444 and 0555, the owner is what --uid and --gid say, nothing can be changed.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 2
mount_set "file://$SRC" --uid 1234 --gid 2345
f=$MNT/class-000/000000.bin
expect "file" "$(stat -c '%a %u %g %h' "$f")" "444 1234 2345 1"
expect "folder" "$(stat -c '%a %u %g' "$MNT/class-000")" "555 1234 2345"
for change in "touch $MNT/new" "rm -f $f" "mkdir $MNT/d" "mv $f $f.2" "chmod 600 $f" "truncate -s 0 $f"; do
    ! $change 2>/dev/null || fail "$change worked on a read-only mount"
done
expect "no such file" "$(cat "$MNT/none" 2>&1 | grep -c 'No such file')" 1
grep " $MNT " /proc/self/mountinfo | grep -q ' ro[, ]' || fail "the mount is not read-only"
unmount

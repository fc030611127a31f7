#!/usr/bin/env bash
# A log that stays open is read from another mount while it is written: --commit interval.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
use_store # use_s3
mount_writable_at writer "$STORE/logs" --commit interval=200ms
mount_writable_at reader "$STORE/logs" --refresh 200ms
exec 8>"$T/mnt-writer/log"
echo "line 1" >&8
has() { grep -qx "$1" "$T/mnt-reader/log" 2>/dev/null; }
until_true 10 has "line 1" || fail "the first line does not come"
echo "line 2" >&8
until_true 10 has "line 2" || fail "the second line does not come"
for i in $(seq 3 400); do echo "line $i"; done >&8
until_true 10 has "line 400" || fail "the last line does not come"
seq -f 'line %g' 400 | cmp - "$T/mnt-reader/log" || fail "other lines"
exec 8>&-
sampan umount "$T/mnt-writer"
seq -f 'line %g' 400 | cmp - "$T/mnt-reader/log" || fail "other lines at the end"
sampan umount "$T/mnt-reader"

#!/usr/bin/env bash
# The cache disk turns read-only: reads go on from the store, status says which tier failed and why.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/broken-disk.sh"
need_mount
make_set --classes 2 --files 40 --size 20000..300000
mount_breakable write,size,make,rename,unlink,sync EROFS
expect "state" "$(status cache.tiers.0.state)" ok
break_disk
served_right 2
expect "state" "$(status cache.tiers.0.state)" failed
[[ $(status cache.tiers.0.why) == *"Read-only file system"* ]] || fail "why: $(status cache.tiers.0.why)"
expect "errors" "$(status reads.errors)" 0
expect "state" "$(status state)" degraded
sampan doctor "$MNT" >"$T/doctor" || true
grep -q "^wrong .*cache tier set aside" "$T/doctor" || fail "doctor: $(cat "$T/doctor")"
! grep -q "every read fails" "$T/doctor" || fail "doctor: $(cat "$T/doctor")"
sampan flush "$MNT" 2>"$T/flush" || true
! grep -q "stores nothing" "$T/flush" || fail "flush: $(cat "$T/flush")"
mend_disk
same_tree "$SRC" "$MNT"
unmount
at_least "refused calls" "$(refusals)" 1
mount_set "file://$SRC" # what the broken disk left is a good cache
served_right 1
unmount
nothing_left

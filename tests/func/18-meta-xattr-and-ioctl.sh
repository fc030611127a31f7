#!/usr/bin/env bash
# Extended attributes tell about a sample; two ioctls on the root carry status and orders.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
need_command getfattr
make_set --classes 1 --files 3
mount_set "file://$SRC"
f=$MNT/class-000/000001.bin
attribute() { getfattr --absolute-names --only-values -n "user.sampan.$1" "$f"; }
[ -n "$(attribute etag)" ] || fail "no etag"
before=$(attribute cached)
cat "$f" >"$T/x"
now_cached() { [ "$(attribute cached)" != "$before" ]; }
until_true 10 now_cached || fail "user.sampan.cached is '$before' before and after the read"
attribute source | grep -q 'file://' || fail "source: $(attribute source)"
attribute partition >"$T/p" || fail "no partition attribute"
getfattr -d --absolute-names "$f" | grep -q user.sampan.etag || fail "listxattr does not name it"
unmount

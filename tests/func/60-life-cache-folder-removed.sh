#!/usr/bin/env bash
# Who removes the cache folder of a mount still has it served, is told what is wrong, and ends it as any other.
# Of a mount that can be written that is refused: what it has not stored may be lost.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 5
mount_set "file://$SRC"
rm -rf "$CACHE"
same_tree "$SRC" "$MNT"
refused 3 "its folder is gone .was the cache folder removed?" sampan status "$MNT"
refused 3 "its folder is gone" sampan warmup "$MNT"
code=0
sampan doctor "$MNT" >"$T/said" || code=$?
[ $code = 1 ] && grep "^wrong .*its folder is gone" "$T/said" || fail "doctor: $code, $(cat "$T/said")"
sampan umount "$MNT"
! is_mounted "$MNT" || fail "still mounted"
until_true 30 no_daemon || fail "its processes have not ended"

mount_set "file://$SRC" --writable
echo new >"$MNT/new"
rm -rf "$CACHE"
refused 3 "--lazy unmounts anyway" sampan umount "$MNT"
is_mounted "$MNT" || fail "it was unmounted"
sampan umount --lazy "$MNT"
until_true 30 no_daemon || fail "its processes have not ended"
[ "$(cat "$SRC/new")" = new ] || fail "what was stored is gone"

# A name with a line end in it makes no second line.
odd="$T/a
b"
mkdir "$odd"
sampan mount "file://$SRC" "$odd" --cache "ssd:$T/odd=100MiB"
[ "$(sampan status | wc -l)" = 2 ] || fail "status: $(sampan status)"
sampan status | has "$T/a b " || fail "status: $(sampan status)"
sampan status "$odd" | sed -n 1p | has "$T/a b  file://" || fail "status: $(sampan status "$odd")"
sampan doctor >"$T/said" || true # this machine may have dead mounts of others
grep -q "^ok .*mount: $T/a b (file://" "$T/said" || fail "doctor: $(cat "$T/said")"
sampan umount "$odd"
nothing_left

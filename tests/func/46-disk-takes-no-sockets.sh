#!/usr/bin/env bash
# A cache folder on a file system that takes no sockets: the mount is refused, and says what to do. Nothing stays behind.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
mkdir -p "$SRC" "$T/set" "$T/inner"
mount_writable "file://$SRC" # one of ours takes none
for how in "" --writable; do
    rc=0
    sampan mount "file://$T/set" "$T/inner" $how --cache "ssd:$MNT/cache$how=20MiB" 2>"$T/said" || rc=$?
    expect "exit${how:+ of $how}" $rc 4
    grep -q "takes no sockets (give a cache folder on a local disk)" "$T/said" || fail "$(cat "$T/said")"
done
expect "mounted" "$(grep -c "$T/inner" /proc/mounts)" 0
unmount
nothing_left

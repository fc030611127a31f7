#!/usr/bin/env bash
# Whatever of a mount is killed while its entry is written: it is mounted and registered, or nothing is left of it;
# also once all of it was killed, and `sampan umount` takes the dead mount away.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/broken-disk.sh"
need_mount
need_tracing
make_set --classes 1 --files 5
mkdir -p "$CACHE"
mount_killed() { # CALLS HOW…
    local calls=$1
    shift
    "$MEDDLE" --below "$SAMPAN_RUN_DIR" --name '*.json*' --calls "$calls" --nth 1 "$@" --timeout 600 -- \
        "$S" mount "file://$SRC" "$MNT" --cache "ssd:$CACHE/made=1GiB" --quiet 2>"$T/meddle.err" &
    WATCHER=$!
}
for calls in open write rename; do
    mount_killed "$calls" --signal KILL # the process that makes the call: a first life
    settled() { ! [ -d "/proc/$WATCHER" ] || sampan status "$MNT" >"$T/told" 2>&1; }
    until_true 40 settled || fail "$calls: neither registered nor over: $(cat "$T/meddle.err")"
    ! is_mounted "$MNT" || { same_bytes "$SRC" "$MNT" && sampan umount "$MNT"; }
    wait "$WATCHER" || fail "$calls: $(cat "$T/meddle.err")"
    grep -q '"hits":1' "$T/meddle.err" || fail "$calls: nothing was killed"
    nothing_left
    mount_killed "$calls" --kill # all of it
    wait "$WATCHER" || fail "$calls, all: $(cat "$T/meddle.err")"
    is_mounted "$MNT" || fail "$calls, all: it was killed too early to be of interest"
    sampan umount "$MNT"
    nothing_left
done

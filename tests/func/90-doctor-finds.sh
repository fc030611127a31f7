#!/usr/bin/env bash
# doctor is content with a sound mount and names what is wrong with a stale one, with the cure.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 3
mount_set "file://$SRC" --no-keeper
sampan doctor "$MNT" >"$T/sound" 2>&1 || fail "doctor objects to a sound mount: $(cat "$T/sound")"
kill -9 $(daemons)
until_true 10 no_daemon
code=0
sampan doctor >"$T/stale" 2>&1 || code=$?
grep -q "$MNT" "$T/stale" || fail "doctor does not name the dead mount: $(cat "$T/stale")"
grep -q "umount" "$T/stale" || fail "doctor names no cure: $(cat "$T/stale")"
[ $code != 0 ] || fail "exit 0 although something is wrong"
sampan umount "$MNT"

#!/usr/bin/env bash
# A plain user's mount (fusermount3) survives kill -9 of its daemon and of its keeper too.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
. "$SAMPAN_TESTS/lib/plain-user.sh"
cp "$(dirname "$SAMPAN")/sampan-keeper" "$T/bin/"
sampan mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB"
expect "keeper" "$(readlink "/proc/$(keeper)/exe")" "$T/bin/sampan-keeper"
as_user diff -r "$SRC" "$MNT"
expect "how much sooner the daemon is killed for want of memory" $(($(cat "/proc/$(life)/oom_score_adj") - $(cat "/proc/$(keeper)/oom_score_adj"))) 100
kill_life
as_user diff -r "$SRC" "$MNT"
old=$(keeper)
kill -9 "$old"
another() { [ "$(keeper)" != "$old" ]; }
until_true 20 another || fail "no new keeper"
kill_life
as_user find "$MNT" -type f >"$T/found"
expect "files" "$(wc -l <"$T/found")" "$(find "$SRC" -type f | wc -l)"
sampan umount "$MNT"
! is_mounted "$MNT" || fail "still mounted"
until_true 20 no_daemon
nothing_left

#!/usr/bin/env bash
# A daemon that answers nothing (SIGSTOP) is killed and replaced; readers wait and see no error. The keeper stopped, and
# both, 2 s (a minute with SLOW=1), harms nothing.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
make_set --classes 2 --files 10
export SAMPAN_KEEPER_HANG_MS=1500
mount_set "file://$SRC"
start_readers ${SLOW:+--seconds 300 --hung-s 100} # no call returns while both are stopped
hang
restarts=$(status restarts)
pause "$(keeper)"
pause "$(keeper)" "$(life)" # a machine that sleeps: nobody hung
expect "restarts" "$(status restarts)" "$restarts"
readers_ok
kill_life # the keeper keeps on
same_bytes "$SRC" "$MNT"
unmount
nothing_left

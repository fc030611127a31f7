#!/usr/bin/env bash
# A daemon that answers nothing (SIGSTOP) is killed and replaced; readers wait and see no error. The keeper stopped, and
# both, for longer than that takes (a minute with SLOW=1), harms nothing.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
make_set --classes 2 --files 10
nobody_hung() {
    local restarts
    mount_set "file://$SRC"
    start_readers # no call returns while both are stopped
    hang
    restarts=$(status restarts)
    pause "$(keeper)"
    pause "$(keeper)" "$(life)" # a machine that sleeps: nobody hung
    restarts=$(($(status restarts) - restarts))
    readers_ok
    kill_life # the keeper keeps on
    same_bytes "$SRC" "$MNT"
    unmount
    nothing_left
    [ "$restarts" = 0 ]
}
with_more_patience nobody_hung || fail "what was stopped with its keeper was taken for hung"

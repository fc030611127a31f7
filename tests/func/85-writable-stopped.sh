#!/usr/bin/env bash
# SIGSTOP of what serves a mount that can be written: of the daemon, which is replaced; of the keeper, and of both, for
# longer than that takes (a minute with SLOW=1), then SIGCONT, which harms nothing. Who writes and compares every byte notices but the time.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
[ -x "$SAMPAN_BUILD/bin/sampan-keeper" ] || skip "no keeper here"
use_store # use_s3
nobody_hung() {
    local restarts
    mount_writable "$STORE/out" --commit background
    work_beside 3 hang
    restarts=$(status restarts)
    work_beside $((PAUSE + 3)) pause "$(keeper)"
    work_beside $((PAUSE + 3)) pause "$(keeper)" "$(life)"
    restarts=$(($(status restarts) - restarts))
    kill_life # the keeper keeps on
    unmount
    nothing_left
    [ "$restarts" = 0 ]
}
with_more_patience nobody_hung || fail "what was stopped with its keeper was taken for hung"

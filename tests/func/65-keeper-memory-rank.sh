#!/usr/bin/env bash
# The kernel that must kill for want of memory is to choose the daemon before its keeper, which starts another: the
# daemon's score is above the keeper's, and both stay what they were however many have died.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
[ -x "$SAMPAN_BUILD/bin/sampan-keeper" ] || skip "no keeper here"
make_set --classes 1 --files 5
base=$(($(cat /proc/self/oom_score_adj) + 30)) # as a pod's or a service's processes have one
[ $base -le 900 ] || skip "this machine's tests rank first already"
score() { cat "/proc/$1/oom_score_adj"; }
ranked() { # WHEN
    expect "the keeper's score $1" "$(score "$(keeper)")" $base
    expect "the daemon's score $1" "$(score "$(life)")" $((base + 100))
}
bash -c 'echo "$1" >/proc/self/oom_score_adj && shift && exec "$@"' - $base "$S" mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB"
on_exit "unmount_quietly '$MNT'"
ranked "at first"
kill_life
ranked "after a daemon's death"
old=$(keeper)
kill -9 "$old"
another() { [ "$(keeper)" != "$old" ] && [ -d "/proc/$(keeper)" ]; }
until_true 20 another || fail "no new keeper"
ranked "after the keeper's death"
kill_life
ranked "after both have died"
sampan upgrade "$MNT"
ranked "after an upgrade"
unmount
nothing_left

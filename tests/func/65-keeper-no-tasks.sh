#!/usr/bin/env bash
# No process may be started when a daemon dies: its keeper tries until one may, and a try is no restart. Where no thread
# may be, a mount that is only read is unmounted all the same.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
if grep -qw pids /sys/fs/cgroup/cgroup.subtree_control 2>/dev/null; then
    group=/sys/fs/cgroup/sampan-$SAMPAN_TEST_TOKEN
elif [ -d /sys/fs/cgroup/pids ]; then
    group=/sys/fs/cgroup/pids/sampan-$SAMPAN_TEST_TOKEN
else
    skip "no pids controller here, neither of cgroup v2 nor of v1"
fi
mkdir "$group" 2>/dev/null || skip "cgroups cannot be made here"
on_exit "rmdir $group"
[ -r "$group/pids.events" ] || skip "this kernel does not count refused processes"
make_set --classes 2 --files 5
mount_set "file://$SRC"
echo "$(keeper)" >"$group/cgroup.procs" # what it starts is in there, too
kill_life
refused_times() { awk '$1 == "max" { print $2 }' "$group/pids.events"; }
refused_twice() { [ "$(refused_times)" -ge 2 ]; }
daemon=$(life)
echo 1 >"$group/pids.max"
kill -9 "$daemon"
until_true 20 refused_twice || fail "the keeper tried $(refused_times) times"
echo max >"$group/pids.max"
until_true 20 restarts_are 2 || fail "restarts: $(status restarts)"
same_tree "$SRC" "$MNT"
expect "state" "$(status state)" ready
expect "restarts" "$(status restarts)" 2
cat "$group/pids.current" >"$group/pids.max"
sampan status "$MNT" --json >"$T/status" 2>"$T/status.err" && fail "a thread was started past the limit"
unmount
nothing_left

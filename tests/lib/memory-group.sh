# Sourced after common.sh by scripts in which the kernel kills for want of memory.
#
#   memory_group         makes a cgroup of this test: $group, and in it the files $limit and $events; skips where none
#                        can be had
#   killed               how many the kernel has killed in it
#   in_group COMMAND…    runs it there
memory_group() {
    if grep -qw memory /sys/fs/cgroup/cgroup.controllers 2>/dev/null; then
        group=/sys/fs/cgroup/sampan-$SAMPAN_TEST_TOKEN limit=memory.max events=memory.events
        grep -qw memory /sys/fs/cgroup/cgroup.subtree_control || skip "the memory controller is not delegated here (v2)"
    elif [ -w /sys/fs/cgroup/memory/memory.limit_in_bytes ]; then
        group=/sys/fs/cgroup/memory/sampan-$SAMPAN_TEST_TOKEN limit=memory.limit_in_bytes events=memory.oom_control
    else
        skip "no memory controller here, neither of cgroup v2 nor of v1"
    fi
    mkdir "$group" 2>/dev/null || skip "cgroups cannot be made here"
    on_exit "rmdir $group"
    grep -qw oom_kill "$group/$events" || skip "this kernel does not count kills of a cgroup"
}

killed() {
    awk '$1 == "oom_kill" { print $2 }' "$group/$events"
}

in_group() {
    # shellcheck disable=SC2016
    bash -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' - "$group" "$@"
}

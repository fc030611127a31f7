#!/usr/bin/env bash
# A cgroup's memory limit: within it the owner serves without being killed; below what it needs it may be
# killed and started again, but no byte is wrong, and with memory again all is served.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/broken-disk.sh"
need_mount
need_root "makes a cgroup"
if grep -qw memory /sys/fs/cgroup/cgroup.controllers 2>/dev/null; then
    group=/sys/fs/cgroup/sampan-$SAMPAN_TEST_TOKEN limit=memory.max
    grep -qw memory /sys/fs/cgroup/cgroup.subtree_control || skip "the memory controller is not delegated here"
elif [ -w /sys/fs/cgroup/memory/memory.limit_in_bytes ]; then
    group=/sys/fs/cgroup/memory/sampan-$SAMPAN_TEST_TOKEN limit=memory.limit_in_bytes
else
    skip "no memory controller here"
fi
mkdir "$group" 2>/dev/null || skip "cgroups cannot be made here"
on_exit "rmdir $group"
kills() {
    grep -h '^oom_kill ' "$group/memory.events" "$group/memory.oom_control" 2>/dev/null | cut -d' ' -f2
}
make_set --classes 3 --files 60 --size 100000..900000
echo $((96 << 20)) >"$group/$limit"
on_exit "unmount_quietly '$MNT'"
# shellcheck disable=SC2016
bash -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' - "$group" \
    timeout 600 "$S" mount "file://$SRC" "$MNT" --memory 64MiB --cache "ssd:$CACHE=1GiB" --free-space 0
served_right 2
expect "kills for want of memory" "$(kills)" 0
for mib in 64 48 32 24 16 12 8 6 4; do # until that much cannot be taken back
    echo $((mib << 20)) >"$group/$limit" 2>/dev/null || break
done
"$VERIFY" --seconds 2 --threads 4 --drop "$SRC" "$MNT" >"$T/starved" 2>/dev/null || true
echo "killed $(kills) times: $(cat "$T/starved")"
expect "wrong bytes" "$(field mismatches <"$T/starved")" 0
expect "hung calls" "$(field hung <"$T/starved")" 0
echo $((96 << 20)) >"$group/$limit"
serves() { "$VERIFY" --passes 1 --threads 1 "$SRC" "$MNT" >"$T/again" 2>/dev/null; }
until_true 30 serves || fail "not served after there was memory again: $(cat "$T/again")"
served_right 1
unmount
nothing_left

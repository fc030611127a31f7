#!/usr/bin/env bash
# The kernel kills owner and keeper, and whatever they start, for want of memory (a cgroup's limit). Where a third process
# holds the mount that is a pause; else `sampan mount` heals it, and what was written and synced is stored.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
. "$SAMPAN_TESTS/lib/memory-group.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
need_root "makes a cgroup"
[ -x "$SAMPAN_BUILD/bin/sampan-keeper" ] || skip "no keeper here"
memory_group
make_set --classes 2 --files 20
on_exit "unmount_quietly '$MNT'"
# Owner and keeper, and those that come after them, are killed before anybody else in the group ...
mounted_in_group() { # SET [OPTIONS…]
    echo $((128 << 20)) >"$group/$limit"
    (
        echo 1000 >"/proc/$BASHPID/oom_score_adj"
        in_group timeout 600 "$S" mount "$@" "$MNT" --memory 64MiB --cache "ssd:$CACHE=1GiB" --free-space 0
    )
}

# ... so they are gone when that one is killed.
starve() {
    local before
    before=$(killed)
    timeout 600 "$PYTHON" "$SAMPAN_TESTS/lib/eat_memory.py" "$group" || fail "nobody was killed"
    until_true 20 no_daemon || fail "still there: $(daemons) $(keepers)"
    echo "killed $(($(killed) - before)): owner, keeper, those that came after them, and one that ate"
    at_least "killed" "$(($(killed) - before))" 3
}

echo "--- another holder"
mounted_in_group "file://$SRC"
start_holder
start_readers
starve
revive
until_true 20 sampan status "$MNT" --json >"$T/told" || fail "nobody answers"
readers_ok
same_bytes "$SRC" "$MNT"
unmount

echo "--- nobody else"
mounted_in_group "file://$SRC"
same_bytes "$SRC" "$MNT"
starve
! stat "$MNT/never-seen" 2>"$T/stat" || fail "a mount without server answers"
grep -q "not connected" "$T/stat" || fail "not ENOTCONN: $(cat "$T/stat")"
code=0
sampan doctor >"$T/doctor" || code=$?
expect "exit code of doctor" "$code" 1
grep -q "dead mount.*$MNT" "$T/doctor" || fail "doctor: $(cat "$T/doctor")"
mount_set "file://$SRC"
same_bytes "$SRC" "$MNT"
expect "nothing fetched again" "$(status fetch.requests)" 0
unmount

echo "--- nobody else, files written"
rm -rf "$CACHE"
mkdir "$T/out"
mounted_in_group "file://$T/out" --writable --commit background
for i in $(seq 20); do dd if=/dev/urandom of="$MNT/f$i" bs=100k count=3 conv=fsync status=none; done
sums "$MNT" >"$T/written"
starve
mount_writable "file://$T/out" --commit background
sampan flush "$MNT"
cmp "$T/written" <(sums "$MNT") || fail "the mount shows something else than what was synced"
cmp "$T/written" <(sums "$T/out") || fail "the store has something else than what was synced"
unmount
nothing_left

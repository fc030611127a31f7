#!/usr/bin/env bash
# The kernel kills the daemon for want of memory (a cgroup's limit) in the middle of writes, again and again: a pause,
# which writers that compare every byte do not notice, and then all is stored.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/memory-group.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
need_root "makes a cgroup"
[ -x "$SAMPAN_BUILD/bin/sampan-keeper" ] || skip "no keeper here"
memory_group
plenty=$((256 << 20))
echo $plenty >"$group/$limit"
mkdir -p "$SRC"
on_exit "unmount_quietly '$MNT'"
in_group timeout 600 "$S" mount "file://$SRC" "$MNT" --writable --commit background --memory 64MiB --cache "ssd:$CACHE=1GiB" --free-space 0
writers=()
for i in 1 2 3; do
    mkdir "$MNT/w$i"
    "$SAMPAN_BUILD/tools/exercise" "$MNT/w$i" --seconds 600 --seed "$RANDOM" --size 4000000 >"$T/writer-$i" 2>&1 &
    writers+=($!)
    on_exit "kill -9 $!"
done
more_than() { # KILLS : less and less memory, until that kills it, and no less: the next one needs some, too
    local mib
    for mib in 48 32 24 16 12 10 8 7 6 5 4 3; do
        echo $((mib << 20)) >"$group/$limit" 2>/dev/null || true
        [ "$(killed)" = "$1" ] || return 0
        sleep 0.05
        [ "$(killed)" = "$1" ] || return 0
    done
    return 1
}
for round in 1 2 3; do
    before=$(killed)
    until_true 60 more_than "$before" || fail "nothing was killed in round $round"
    echo $plenty >"$group/$limit"
    serves() { stat "$MNT/w1" >"$T/stat" && [ "$(status state)" = ready ]; }
    until_true 60 serves || fail "not served again in round $round: $(sampan status "$MNT" 2>&1)"
    # Between two kills, writers get on.
    kill -0 "${writers[@]}" || fail "a writer ended: $(tail -3 "$T"/writer-*)"
done
kill -TERM "${writers[@]}"
for i in 1 2 3; do
    code=0
    wait "${writers[$((i - 1))]}" || code=$?
    expect "writer $i, which found no other byte and no error until it was stopped" "$code" 143
done
echo "killed $(killed) times, $(status restarts) restarts"
at_least "kills" "$(killed)" 3
at_least "restarts" "$(status restarts)" 3
sampan flush "$MNT"
diff -r "$MNT" "$SRC" || fail "the store has something else than the mount"
unmount
nothing_left

#!/usr/bin/env bash
# The kernel kills for want of memory (a cgroup's limit) whatever starts to serve: that ends in a clear state, reads fail
# or wait but are never wrong, and with memory again one command makes all well.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/memory-group.sh"
. "$SAMPAN_TESTS/lib/broken-disk.sh"
need_mount
need_root "makes a cgroup"
memory_group
make_set --classes 2 --files 40 --size 600000..900000
echo $((96 << 20)) >"$group/$limit"
on_exit "unmount_quietly '$MNT'"
in_group timeout 600 "$S" mount "file://$SRC" "$MNT" --memory 64MiB --cache "ssd:$CACHE=1GiB" --free-space 0
for mib in 24 16 12 10 8 7 6 5 4; do # as low as it goes: what is idle needs little
    echo $((mib << 20)) >"$group/$limit" 2>/dev/null || break
done
# Nothing is cached: each of these reads wants a buffer of its own.
"$VERIFY" --seconds 600 --threads 24 --drop --hung-s 300 "$SRC" "$MNT" >"$T/starved" 2>/dev/null &
reader=$!
some() { [ "$(killed)" -gt 0 ]; }
until_true 20 some || fail "nothing was killed: $(cat "$group"/memory.*limit_in_bytes "$group/memory.max" 2>/dev/null | head -1)"
kill -INT $reader
wait $reader || true
echo "killed $(killed) times: $(cat "$T/starved")"
echo $((96 << 20)) >"$group/$limit"
expect "wrong bytes" "$(field mismatches <"$T/starved")" 0
expect "hung calls" "$(field hung <"$T/starved")" 0
told() { sampan status "$MNT" --json >"$T/told" 2>"$T/why" || grep -q "its processes have ended" "$T/why"; }
until_true 30 told || fail "nobody answers although there is memory again: $(cat "$T/why")"
if [ ! -s "$T/told" ]; then # the keeper as well
    sampan mount "file://$SRC" "$MNT" --memory 64MiB --cache "ssd:$CACHE=1GiB" --free-space 0
elif [ "$(field state <"$T/told")" = degraded ]; then
    field why <"$T/told" | has "out of memory" || fail "why: $(field why <"$T/told")"
    sampan upgrade "$MNT"
fi
served_right 2
expect "errors now" "$(status state)" ready
unmount
nothing_left

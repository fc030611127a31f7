#!/usr/bin/env bash
# kill -9 of the daemon again and again under writers that compare every byte: they notice nothing.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
[ -x "$SAMPAN_BUILD/bin/sampan-keeper" ] || skip "no keeper here"
use_store # use_s3
mount_writable "$STORE/out" --commit background --log-level debug
mkdir "$MNT/locked"
cd "$MNT/locked" # a folder that is worked in
exec 7>held 8<>unlinked
flock 7
echo "still here" >&8
rm unlinked
seconds=${KILL_SECONDS:-6}
"$SAMPAN_BUILD/tools/exercise" "$MNT" --until "$T/enough" --seed "${SEED:-$RANDOM}" >"$T/exercise" 2>&1 &
exercise=$!
on_exit "kill -9 $exercise"
(
    end=$((SECONDS + seconds)) i=0
    while [ $SECONDS -lt $end ] || [ $i -lt 3 ]; do
        i=$((i + 1))
        mkdir "d$i" && echo "content $i" >"d$i/file" && mv "d$i/file" "d$i/renamed" && ln -s renamed "d$i/link"
        [ "$(cat "d$i/link")" = "content $i" ] && rm "d$i/link" "d$i/renamed" && rmdir "d$i"
    done
    echo $i
) >"$T/names" 2>"$T/names.err" &
names=$!
end=$((SECONDS + seconds)) kills=0 restarts=0
while kill -0 $exercise 2>/dev/null && { [ $SECONDS -lt $end ] || [ "$restarts" -lt 3 ]; }; do
    pid=$(status pid 2>/dev/null || echo 0)
    [ "$pid" = 0 ] || ! kill -9 "$pid" 2>/dev/null || kills=$((kills + 1))
    sleep 0.5
    restarts=$(status restarts 2>/dev/null || echo 0)
done
touch "$T/enough"
wait $exercise || fail "the exerciser: $(cat "$T/exercise")"
wait $names
[ ! -s "$T/names.err" ] || fail "names: $(cat "$T/names.err")"
! flock -n held true || fail "the lock is gone"
expect "the unlinked file" "$(cat /proc/self/fd/8 2>/dev/null || cat "/proc/$$/fd/8")" "still here"
expect "the folder worked in" "$(ls)" held
exec 7>&- 8>&-
cd "$T"
echo "$kills kills, $(cat "$T/names") rounds of names, $(cat "$T/exercise")"
at_least "kills" "$kills" 3
at_least "restarts" "$(status restarts)" 3
cp "$MNT"/exercise-? "$T/seen"
file=$(cd "$MNT" && ls exercise-?)
unmount
stored cat "out/$file" | cmp "$T/seen" - || fail "the store has something else"
expect "uploads left behind" "$(stored uploads)" ""

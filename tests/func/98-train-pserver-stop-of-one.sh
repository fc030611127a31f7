#!/usr/bin/env bash
# With parameter servers, too, a stop that one trainer is asked for does not wait for another one whose samples hang: all hear of
# it, and the job goes on later to the bits of one that nothing held up. One that stands still besides is waited for 10 s.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
. "$SAMPAN_TESTS/lib/pservers.sh"
. "$SAMPAN_TESTS/lib/held-up.sh"
options+=(--saving_period 0)
hold_up
begin() { # FOLDER DATA-OF-TRAINER-1 [OPTIONS…]
    server 1
    server 2
    trainer 0 "${options[@]}" --save_dir "$T/$1" "${@:3}"
    trainer 1 "${options[@]}" --save_dir "$T/$1" --data "$2" "${@:3}"
}
soon() { # PID
    timeout 600 tail --pid="$1" -f /dev/null || fail "it waits: $(logs)"
}

for way in "" --async; do
    # shellcheck disable=SC2086 # an option or none
    begin "out$way" "$MNT" $way
    [ -z "$way" ] || until_true 30 grep -q 'Pass=3 done' "$T/trainer0.log" || fail "it waits for the other one: $(logs)"
    [ -n "$way" ] || until_held_up trainer0
    kill -TERM "${trainers[0]}"
    soon "${trainers[0]}"
    soon "${trainers[1]}"
    all_ended 0 143
    made=$(steps trainer0)
    grep -q "stopped by a signal after step $made;" "$T/trainer0.log" || fail "$(logs)"
    grep -q "warn train: step [0-9]* is not made: samples that it needs have not come (does the storage behind $MNT answer?)" "$T/trainer1.log" ||
        fail "the wrong trainer waits: $(logs)"
    [ -e "$T/out$way"/pass-*/done ] || fail "no checkpoint: $(logs)"
done

begin still "$MNT"
until_held_up trainer0
kill -STOP "${trainers[1]}"
kill -TERM "${trainers[0]}"
soon "${trainers[0]}"
ended "trainer 0" 143 "${trainers[0]}"
made=$(steps trainer0)
grep -q "warn train: stops after step $made without the others: asked to stop, and not all of 2 trainers have answered 10 s later" "$T/trainer0.log" ||
    fail "it does not say so: $(logs)"
kill -CONT "${trainers[1]}"
soon "${trainers[1]}"
ended "trainer 1" 1 "${trainers[1]}"
grep -q "^sampan-train: pserver .*: trainer 0 of 2 has died or ended" "$T/trainer1.log" || fail "$(logs)"
ended "server 1" 1 "${servers[1]}"
ended "server 2" 1 "${servers[2]}"

# Nor does one wait for samples when its servers have ended.
begin none "$MNT"
until_held_up trainer0
kill -KILL "${servers[1]}"
soon "${trainers[1]}"
ended "trainer 1" 1 "${trainers[1]}"
grep -q "^sampan-train: pserver $net.1:[0-9]* has died" "$T/trainer1.log" || fail "$(logs)"
ended "trainer 0" 1 "${trainers[0]}"

faults
for folder in out still never; do
    begin $folder "$MNT"
    all_ended 0 0
    [ $folder = never ] || grep -q "going on from .* step $made" "$T/trainer1.log" || fail "it began anew: $(logs)"
    diff -r "$T/$folder/pass-00003" "$T/out/pass-00003" || fail "$folder: not the bits of a job that nothing held up"
done

#!/usr/bin/env bash
# Who asks training to stop while the samples of a step hang does not wait for them: the checkpoint is that of the steps that were
# made, on all ranks, the end says what did not come, and going on ends with the bits of a run that nothing held up.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
TRAIN="$SAMPAN_BUILD/bin/sampan-train"
. "$SAMPAN_TESTS/lib/held-up.sh"
begin() { # LOG OPTIONS… : its pid in $pid
    local log=$1
    shift
    : >"$T/$log.json"
    "$TRAIN" "${options[@]}" "$@" >"$T/$log.json" 2>"$T/$log.log" &
    pid=$!
    on_exit "kill -9 $pid"
}
stopped() { # LOG PID : ends by SIGTERM, and within a time that no grace period is shorter than
    local code=0
    timeout 600 tail --pid="$2" -f /dev/null || fail "it waits: $(tail -n 3 "$T/$1.log")"
    wait "$2" || code=$?
    expect "exit code: $(tail -n 3 "$T/$1.log")" "$code" 143
}
is_stuck() { # LOG…
    grep -q "warn train: step [0-9]* is not made: samples that it needs have not come (does the storage behind $MNT answer?)" "${@/#/$T/}"
}
same_end() { # A B : the newest checkpoints
    local a b
    a=$(ls -d "$T/$1"/pass-* | tail -n 1) b=$(ls -d "$T/$2"/pass-* | tail -n 1)
    expect "the newest checkpoint" "${a##*/}" "${b##*/}"
    diff -r "$a" "$b" || fail "not the bits of the run that nothing held up"
}
# Stopped while it has what it needs, it stops after its step as ever, and is asked again.
until_stuck() { # FUNCTION : starts all ranks, and stops them
    local try
    for try in 1 2 3 4 5 6 7 8 9 10; do
        "$@" "$try"
        ! is_stuck one.log two.log || return 0
    done
    fail "it never waited for samples: $(cat "$T/one.log")"
}
: >"$T/two.log"

"$TRAIN" "${options[@]}" --data "$SRC" --save_dir "$T/never" >"$T/never.json" 2>"$T/why" || fail "$(cat "$T/why")"
# The store gives the samples of the first six steps, and nothing of the others.
hold_up
alone() {
    begin one --data "$MNT" --save_dir "$T/out" --saving_period 0
    [ "$1" -gt 1 ] || until_true 30 has_made one 3 || fail "no step: $(cat "$T/one.log")"
    [ "$1" = 1 ] || until_true 30 grep -q "going on from" "$T/one.log" || fail "it began anew: $(cat "$T/one.log")"
    sleep 0.2
    kill -TERM "$pid"
    stopped one "$pid"
}
until_stuck alone
grep -q "stopped by a signal after step [0-9]*; the same command goes on from there" "$T/one.log" || fail "$(cat "$T/one.log")"
expect "how it ended" "$(tail -n 1 "$T/one.json" | field state)" stopped
[ -e "$(tail -n 1 "$T/one.json" | field checkpoint)/done" ] || fail "no whole checkpoint: $(tail -n 1 "$T/one.json")"

# Two ranks of one set: one has its samples, and the batch that it took already must not be missing later.
two_ranks() { # OPTIONS…
    rm -f "$T/place"
    begin two --num_gradient_servers 2 --rendezvous "file://$T/place" --trainer_id 1 --data "$MNT" "$@"
    second=$pid
    begin one --num_gradient_servers 2 --rendezvous "file://$T/place" --trainer_id 0 --data "$SRC" "$@"
}
both() {
    two_ranks --save_dir "$T/both" --saving_period 0
    [ "$1" -gt 1 ] || until_true 30 has_made one 3 || fail "no step: $(cat "$T/one.log" "$T/two.log")"
    [ "$1" = 1 ] || until_true 30 grep -q "going on from" "$T/one.log" || fail "it began anew: $(cat "$T/one.log")"
    sleep 0.2
    kill -TERM "$pid" "$second"
    stopped one "$pid"
    stopped two "$second"
}
until_stuck both
is_stuck two.log || fail "the wrong rank waits: $(cat "$T/one.log")"

# So is judging given up: what was learned in the pass is saved, and who goes on judges it.
begin one --data "$SRC" --test_data "$MNT" --save_dir "$T/judged"
until_true 30 grep -q "Pass=0 done" "$T/one.log" || fail "no pass: $(cat "$T/one.log")"
kill -TERM "$pid"
stopped one "$pid"
steps=$(tail -n 1 "$T/one.json" | field step)
expect "checkpoints" "$(ls "$T/judged")" "$(printf 'pass-00000-batch-%09d' "$steps")"
! grep -q "Test Pass" "$T/one.log" || fail "judged without samples: $(cat "$T/one.log")"
! grep -q '"event":"epoch"' "$T/one.json" || fail "the pass is told of without what it is worth: $(cat "$T/one.json")"
begin one --data "$SRC" --test_data "$SRC" --save_dir "$T/judged" --max_steps "$steps"
wait "$pid" || fail "it does not go on: $(cat "$T/one.log")"
grep -q "\"event\":\"epoch\",\"epoch\":0,\"step\":$steps,.*\"test_loss\":[0-9]" "$T/one.json" || fail "it is not judged: $(cat "$T/one.json")"
[ -e "$T/judged/pass-00000/done" ] || fail "the pass is not saved: $(ls "$T/judged")"

# What is read ahead to judge again may hang long before it is wanted: neither the next judging nor the end waits for it. Of 12
# samples in batches of 4 all are read when training begins, and one of them is never there again.
"$SAMPAN_BUILD/tools/make-pictures" "$T/few" 4 3 48 40
mkfifo "$T/pipe"
one_of_few=$(find "$T/few" -type f | sort | sed -n 5p)
cp "$one_of_few" "$T/aside"
for when in before again; do # it is asked to stop before it judges a second time; when that has begun
    cp --remove-destination "$T/aside" "$one_of_few"
    begin one --data "$SRC" --test_data "$T/few" --num_passes 100000 --test_period 300 --saving_period 0 --save_dir "$T/ahead-$when"
    until_true 30 has_made one 3 || fail "no step: $(cat "$T/one.log")"
    ln -f "$T/pipe" "$one_of_few"
    until_true 60 grep -q "Test Pass=299" "$T/one.log" || fail "it never judged: $(tail -n 3 "$T/one.log")"
    [ $when = before ] || until_true 60 stands_still one || fail "it judges again: $(tail -n 3 "$T/one.log")"
    kill -TERM "$pid"
    stopped one "$pid"
    expect "how it ended" "$(tail -n 1 "$T/one.json" | field state)" stopped
    [ -e "$(tail -n 1 "$T/one.json" | field checkpoint)/done" ] || fail "no whole checkpoint: $(tail -n 1 "$T/one.json")"
done

faults
begin one --data "$MNT" --save_dir "$T/out"
wait "$pid" || fail "it does not go on: $(cat "$T/one.log")"
same_end out never
for save in both both-never; do
    two_ranks --save_dir "$T/$save"
    wait "$pid" || fail "it does not go on: $(cat "$T/one.log" "$T/two.log")"
    wait "$second" || fail "it does not go on: $(cat "$T/two.log")"
done
same_end both both-never

#!/usr/bin/env bash
# Who asks training to stop waits for no more than the step in hand: it leaves a checkpoint of that step, from which the same
# command ends with the bits of a run that nobody stopped. While others are waited for there is nothing to keep: it ends at
# once. A rank that stands still in a step is found out by the others.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/ratings.sh"
TRAIN="$SAMPAN_BUILD/bin/sampan-train"
net=127.$((1 + $$ % 250)).$((1 + $$ / 250 % 250)) # addresses of this test alone
start() { # OPTIONS… : its pid in $pid
    : >"$T/out"
    : >"$T/train.log" # what is looked for in it is not that of one before
    "$TRAIN" --device cpu "$@" >"$T/out" 2>"$T/train.log" &
    pid=$!
    on_exit "kill -9 $pid"
}
wrote() { # TEXT
    grep -q -- "$1" "$T/out" "$T/train.log"
}
ended() { # CODE
    local code=0
    wait "$pid" || code=$?
    expect "exit code: $(tail -n 3 "$T/train.log")" "$code" "$1"
}

# Between steps of a pass that nobody would wait for. Three passes, so that it may be any of them.
set=(--data synthetic:200000,4 --model mlp --image 8 --batch_size 16 --num_passes 3 --log_period 1 --json)
for signal in TERM INT; do
    start "${set[@]}" --save_dir "$T/$signal"
    until_true 30 wrote '"event":"step"' || fail "no step: $(cat "$T/train.log")"
    kill -$signal "$pid"
    ended $((128 + $(kill -l $signal)))
    step=$(tail -n 1 "$T/out" | field step)
    expect "the last line" "$(tail -n 1 "$T/out" | field event) $(tail -n 1 "$T/out" | field state)" "summary stopped"
    place=$(tail -n 1 "$T/out" | field checkpoint)
    expect "where it is" "${place##*/}" "$(printf 'pass-00000-batch-%09d' "$step")"
    [ -e "$place/done" ] || fail "the checkpoint is not whole: $(ls "$place")"
    grep -q "stopped by a signal after step $step; the same command goes on from there" "$T/train.log" || fail "$(tail -n 2 "$T/train.log")"

    for run in "$signal" never; do # to the same step, ten steps on
        start "${set[@]}" --save_dir "$T/$run" --max_steps $((step + 10))
        ended 0
    done
    diff -r "$T/$signal/$(printf 'pass-00000-batch-%09d' $((step + 10)))" "$T/never/$(printf 'pass-00000-batch-%09d' $((step + 10)))" ||
        fail "not the bits of the run that was never stopped"
    rm -r "$T/never"
done

# Of two ranks one alone is asked: both stop after the same step, and rank 0 leaves the checkpoint, from which both go on to the
# bits of two that nobody stopped.
two_ranks() { # OPTIONS… : pids in $second and $pid
    rm -f "$T/place"
    "$TRAIN" --device cpu "${set[@]}" --num_gradient_servers 2 --rendezvous "file://$T/place" --trainer_id 1 "$@" >"$T/rank1.out" 2>"$T/rank1.log" &
    second=$!
    on_exit "kill -9 $second"
    start "${set[@]}" --num_gradient_servers 2 --rendezvous "file://$T/place" --trainer_id 0 "$@"
}
both_ended() { # CODE
    ended "$1"
    local code=0
    wait "$second" || code=$?
    expect "exit code of rank 1: $(tail -n 3 "$T/rank1.log")" "$code" "$1"
}
for who in 0 1; do
    two_ranks --save_dir "$T/of-two-$who"
    until_true 30 wrote '"event":"step"' || fail "no step: $(cat "$T/train.log" "$T/rank1.log")"
    [ $who = 0 ] || kill -TERM "$second"
    [ $who = 1 ] || kill -TERM "$pid"
    both_ended 143
    step=$(tail -n 1 "$T/out" | field step)
    grep -q "stopped by a signal after step $step;" "$T/train.log" || fail "$(tail -n 2 "$T/train.log")"
    grep -q "stopped by a signal after step $step;" "$T/rank1.log" || fail "$(tail -n 2 "$T/rank1.log")"
    expect "checkpoints" "$(ls "$T/of-two-$who")" "$(printf 'pass-00000-batch-%09d' "$step")"
    for run in "of-two-$who" never; do
        two_ranks --save_dir "$T/$run" --max_steps $((step + 10))
        both_ended 0
    done
    diff -r "$T/of-two-$who/$(printf 'pass-00000-batch-%09d' $((step + 10)))" "$T/never/$(printf 'pass-00000-batch-%09d' $((step + 10)))" ||
        fail "not the bits of two ranks that were never stopped"
    rm -r "$T/never"
done

# While it waits: for rank 1, for rank 0, for a parameter server, each for minutes.
make_ratings "$SRC"
alone=(--num_gradient_servers 2 --rendezvous_timeout 10m)
for who in "--rendezvous file://$T/place --trainer_id 0" "--rendezvous $net.9:7 --trainer_id 1" \
    "--model movie --local=0 --pservers $net.9 --trainer_id 0"; do
    # shellcheck disable=SC2086 # options
    start --data "$SRC" --model movie "${alone[@]}" $who --save_dir "$T/none"
    until_true 30 wrote 'meets the others\|pserver 0 ' || fail "$(cat "$T/train.log")"
    kill -TERM "$pid"
    ended 143
    grep -q "^sampan-train: stopped by a signal before the first step" "$T/train.log" || fail "$(cat "$T/train.log")"
    [ ! -e "$T/none" ] || fail "something is left: $(ls -R "$T/none")"
done

# One of two ranks stands still within a step: the other one names it when its time is over, and so does it itself; resuming works.
rm -f "$T/place"
both=(--data "$SRC" --model movie --num_passes 100000 --num_gradient_servers 2 --rendezvous "file://$T/place" --collective_timeout 10s
    --save_dir "$T/still" --saving_period 1)
"$TRAIN" --device cpu "${both[@]}" --trainer_id 1 2>"$T/rank1.log" &
second=$!
on_exit "kill -9 $second"
start "${both[@]}" --trainer_id 0
until_true 30 wrote "Saving parameters" || fail "$(cat "$T/train.log" "$T/rank1.log")"
kill -STOP $second
ended 1
grep -q "^sampan-train: rank 1 of 2 stands still, or is cut off" "$T/train.log" || fail "$(tail -n 3 "$T/train.log")"
kill -CONT $second
wait $second && fail "who stood still has trained to its end"
grep -q "^sampan-train: this rank, 1 of 2, stood still for longer" "$T/rank1.log" || fail "$(tail -n 3 "$T/rank1.log")"
start --data "$SRC" --model movie --save_dir "$T/still" --max_steps 1
ended 0
grep -q "going on from $T/still/pass-" "$T/train.log" || fail "$(cat "$T/train.log")"

#!/usr/bin/env bash
# Asynchronous trainers: alone, one learns bit for bit what a synchronous one does; of two, one goes on while the other stands
# still or has died; a wish to stop reaches both, and trainer 0 saves what both have learned; without trainer 0 it ends.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/pservers.sh"
make_ratings "$SRC"
passes() { # I : that its trainer has finished
    grep -c "Pass=[0-9]* done:" "$T/trainer$1.log"
}
passed() { # I PASSES
    [ "$(passes "$1")" -ge "$2" ]
}
cost() { # I : of the newest judgement
    grep -o "Test Pass=.*cost=[^ ]*" "$T/trainer$1.log" | tail -n 1 | sed 's/.*cost=//'
}

one=(--num_gradient_servers 1 --rendezvous_timeout 600s)
for mode in --async ""; do
    for i in 1 2; do
        server $i "${one[@]}"
    done
    # shellcheck disable=SC2086 # one word or none
    trainer 0 "${one[@]}" --num_passes 3 --save_dir "$T/one$mode" $mode
    ended "server 1" 0 "${servers[1]}"
    ended "server 2" 0 "${servers[2]}"
    ended "the only trainer $mode" 0 "${trainers[0]}"
done
diff -r "$T/one--async/pass-00002" "$T/one/pass-00002" || fail "alone, the steps are others"

# Both learn, and what trainer 0 saved last is what it judges: both trainers' steps are in it.
job --async --num_passes 15 --save_dir "$T/both" --test_data "$SRC" --keep 0
all_ended 0 0
at_most "what is left of a cost of 1.0" "$(cost 0)" 0.2
grep -q "Test Pass=14 samples=600 " "$T/trainer0.log" || fail "it did not judge by all samples: $(logs)"
! grep -q "Test Pass" "$T/trainer1.log" || fail "trainer 1 judged, too"
expect "checkpoints" "$(find "$T/both" -name done | wc -l)" 15

# Trainer 1 stands still: trainer 0 goes on, and then waits for it. A synchronous one would not end a pass.
job --async --num_passes 40 --save_dir "$T/still" --saving_period 0
until_true 60 passed 0 2 || fail "no pass: $(logs)"
kill -STOP "${trainers[1]}"
then=$(passes 0)
until_true 60 passed 0 $((then + 10)) || fail "it waits for one that stands still: $(logs)"
kill -CONT "${trainers[1]}"
all_ended 0 0
expect "passes of trainer 0" "$(grep -c "warn" "$T/trainer0.log") $(grep -c "done: step=800" "$T/trainer0.log")" "0 1"

# Trainer 1 dies: the servers say so, and the rest goes its way to the end.
job --async --num_passes 20 --save_dir "$T/dead" --saving_period 5
until_true 60 passed 0 2 || fail "no pass: $(logs)"
kill -9 "${trainers[1]}"
ended "trainer 0 without the other" 0 "${trainers[0]}"
for i in 1 2; do
    ended "server $i" 0 "${servers[i]}"
    grep -q "warn pserver: port 716[45]: trainer 1 of 2 has died; the others go on without it" "$T/pserver$i.log" || fail "$(logs)"
done
[ -e "$T/dead/pass-00019/done" ] || fail "the last pass is not saved: $(ls "$T/dead")"

# Trainer 1 is asked to stop: all do, and the same commands go on.
job --async --num_passes 100000 --save_dir "$T/stop" --saving_period 0
until_true 60 passed 0 2 || fail "no pass: $(logs)"
kill -TERM "${trainers[1]}"
all_ended 0 143
saved=$(find "$T/stop" -name done)
[ -n "$saved" ] || fail "nothing is saved: $(logs)"
job --async --num_passes 100000 --save_dir "$T/stop"
until_true 60 passed 0 2 || fail "it does not go on: $(logs)"
grep -q "going on from $(dirname "$saved"): " "$T/trainer1.log" || fail "it began anew: $(logs)"

# Without trainer 0 nobody saves: that is the end, and it is named.
kill -9 "${trainers[0]}"
ended "trainer 1" 1 "${trainers[1]}"
for i in 1 2; do
    ended "server $i" 1 "${servers[i]}"
done
grep -q "^sampan-train: .*trainer 0 of 2 has died" "$T/trainer1.log" || fail "$(logs)"

# Who waits for the others at the end hears a wish to stop as well.
for i in 1 2; do
    server $i
done
trainer 0 --async --num_passes 1 --save_dir "$T/early"
trainer 1 --async --num_passes 100000
until_true 60 passed 0 1 || fail "$(logs)"
kill -TERM "${trainers[0]}"
all_ended 0 143

# But one that stands still is waited for 10 s then; what all have learned until then is saved.
job --async --num_passes 100000 --save_dir "$T/frozen" --saving_period 0
until_true 60 passed 0 2 || fail "no pass: $(logs)"
kill -STOP "${trainers[1]}"
kill -TERM "${trainers[0]}"
timeout 300 tail --pid="${trainers[0]}" -f /dev/null || fail "it waits: $(logs)"
ended "trainer 0" 143 "${trainers[0]}"
grep -q "warn train: stops after step [0-9]* without the others: asked to stop, and not all of 2 trainers have answered 10 s later" \
    "$T/trainer0.log" || fail "it does not say so: $(logs)"
[ -e "$T/frozen"/pass-*/done ] || fail "nothing is saved: $(logs)"
kill -CONT "${trainers[1]}"
ended "trainer 1" 1 "${trainers[1]}"
for i in 1 2; do
    ended "server $i" 1 "${servers[i]}"
done

# All of a job are of one kind; and it takes servers.
for i in 1 2; do
    server $i
done
trainer 0 --async
trainer 1
for pid in "${servers[@]}" "${trainers[@]}"; do # who is refused, and who would wait for it, long before --rendezvous_timeout
    timeout 300 tail --pid="$pid" -f /dev/null || fail "it waits: $(logs)"
    wait "$pid" && fail "one of them thinks that all was well: $(logs)"
done
refusal="another --async than the first trainer's"
grep -q "^sampan-train: pserver $net.[12]:716[45]: $refusal" "$T"/trainer?.log || fail "nobody is refused: $(logs)"
grep -q "^sampan-train: trainer [01] of 2 is refused: $refusal" "$T"/pserver?.log || fail "no server ends because of it: $(logs)"
for i in 0 1; do
    grep -Eq "^sampan-train: pserver $net.[12]:716[45]: (trainer [01] of 2 is refused: )?$refusal|pserver $net.[12]:716[45]( has died|: trainer [01] of 2 has died)" \
        "$T/trainer$i.log" || fail "trainer $i does not say why: $(logs)"
done
refused 2 "--async: with parameter servers alone" "$TRAIN" --data "$SRC" --model movie --async --log_level error

#!/usr/bin/env bash
# A pass is made to its end by whoever goes on with it: each of its samples once, whatever the number of ranks or the batch was
# before and is now; and one that was left after its last step is judged, told and saved. Its curves go on, and those of another run stay.
. "$SAMPAN_TESTS/lib/common.sh"
TRAIN="$SAMPAN_BUILD/bin/sampan-train"
"$SAMPAN_BUILD/tools/make-pictures" "$SRC" 4 24 48 40 # 96 samples
set=(--device cpu --trainer_count 1 --loader_threads 1 --image 8 --hidden 8 --model mlp --num_passes 2 --json --data "$SRC")
trained() { # CODE FOLDER OPTIONS… : one rank; what it tells is in $T/0.json
    local want=$1 folder=$2 code=0
    shift 2
    "$TRAIN" "${set[@]}" --save_dir "$T/$folder" "$@" >"$T/0.json" 2>"$T/0.log" || code=$?
    [ "$code" = "$want" ] || fail "exit code $code, want $want: $(cat "$T/0.log")"
}
trained_by() { # RANKS FOLDER OPTIONS…
    local n=$1 folder=$2 r pids=()
    shift 2
    rm -f "$T/place"
    for ((r = 0; r < n; r++)); do
        "$TRAIN" "${set[@]}" --save_dir "$T/$folder" --trainer_id $r --num_gradient_servers "$n" \
            --rendezvous "file://$T/place" "$@" >"$T/$r.json" 2>"$T/$r.log" &
        pids+=($!)
        on_exit "kill -9 $!"
    done
    for r in "${!pids[@]}"; do
        wait "${pids[r]}" || fail "rank $r of $n: $(cat "$T/$r.log")"
    done
}
told() { # EVENT FIELD : of all lines of that event, one after the other
    "$PYTHON" -c 'import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
print(*(line.get(sys.argv[3]) for line in lines if line["event"] == sys.argv[2]))' "$T/0.json" "$1" "$2"
}

# 40 of 96 samples are done.
trained 0 five --batch_size 8 --max_steps 5
for how in "4 8" "2 4" "1 100" "1 3"; do
    read -r ranks batch <<<"$how"
    cp -r "$T/five" "$T/$ranks-$batch"
    trained_by "$ranks" "$ranks-$batch" --batch_size "$batch" --num_passes 1
    grep -q "going on from .*: pass 0 batch 5 step 5" "$T/0.log" || fail "$how: $(cat "$T/0.log")"
    expect "$how: passes that ended" "$(told epoch epoch)" 0
    expect "$how: samples that were left of it" "$(told summary samples)" 56
    expect "$how: samples of it that its loss is of" "$(told epoch samples)" 96
    each=$(((56 + ranks - 1) / ranks))
    expect "$how: steps" "$(told summary step)" $((5 + (each + batch - 1) / batch))
    [ -e "$T/$ranks-$batch/pass-00000/done" ] || fail "$how: the pass is not saved: $(ls "$T/$ranks-$batch")"
done
# Rates go by passes, whatever a step was before: 40 samples of 192 are no more than one of 8 steps of 24.
cp -r "$T/five" "$T/rates"
trained 0 rates --batch_size 24 --schedule cosine --learning_rate 1 --log_period 1 --log_dir "$T/rates-curves"
rates() { # FOLDER OF CURVES
    "$PYTHON" -c 'import json, sys
print(*(round(json.loads(line)["learning_rate"], 3) for line in sys.stdin))' <"$T/$1/train.jsonl"
}
expect "rates" "$(rates rates-curves)" "0.962 0.854 0.691 0.5 0.309 0.146 0.038"
# Two batches of 36 are a pass where the rest of 24 is dropped, and so are those of the 94 that one step of 2 has left.
trained 0 dropped --sampler paddle-distributed,drop-last=true --batch_size 2 --max_steps 1
trained 0 dropped --sampler paddle-distributed,drop-last=true --batch_size 36 --schedule cosine --learning_rate 1 --log_period 1 --log_dir "$T/dropped-curves"
expect "rates of whole batches" "$(rates dropped-curves)" "1 0.854 0.5 0.146"
# Back and forth within one pass: 40 samples by one, 16 by two, the rest by one.
cp -r "$T/five" "$T/forth"
trained_by 2 forth --batch_size 4 --max_steps 7
trained 0 forth --batch_size 16
expect "samples of the rest, and of the pass after it" "$(told summary samples)" $((40 + 96))

# Who has fewer samples of its own waits for the end of the pass: nothing of the next one is taken into it.
"$SAMPAN_BUILD/tools/make-pictures" "$T/few" 4 4 48 40
rm -f "$T/place"
"$TRAIN" "${set[@]}" --own_data --trainer_id 1 --num_gradient_servers 2 --rendezvous "file://$T/place" 2>"$T/1.log" &
second=$!
on_exit "kill -9 $second"
"$TRAIN" "${set[@]}" --data "$T/few" --own_data --trainer_id 0 --num_gradient_servers 2 --rendezvous "file://$T/place" \
    >"$T/0.json" 2>"$T/0.log" || fail "$(cat "$T/0.log")"
wait "$second" || fail "$(cat "$T/1.log")"
expect "samples of two passes" "$(told summary samples)" $((2 * (16 + 96)))

# Ranks with samples of their own know what they have read by the batches that they have made.
trained_by 2 own --own_data --batch_size 8 --max_steps 5
rm -f "$T/place"
"$TRAIN" "${set[@]}" --save_dir "$T/own" --own_data --batch_size 4 2>"$T/0.log" && fail "it goes on somewhere"
grep -q -- "--own_data: .*/own/pass-00000-batch-000000005 is within a pass with --batch_size 8: go on with that" "$T/0.log" ||
    fail "$(cat "$T/0.log")"

# --max_steps may be the last ones of a pass.
passes=(--batch_size 8 --test_data "$SRC")
trained 0 whole "${passes[@]}" --max_steps 12
expect "a pass of 12 steps" "$(told epoch epoch) $(told epoch step) $(ls "$T/whole")" "0 12 pass-00000"
trained 0 whole "${passes[@]}" --max_steps 12
grep -q "nothing is left to do: 12 steps are made, --max_steps is 12" "$T/0.log" || fail "$(cat "$T/0.log")"
! grep -q "cost=0$" "$T/0.log" || fail "a loss that was none: $(cat "$T/0.log")"
expect "passes that ended" "$(told epoch epoch)" ""

# What is told of a pass that was left in the middle is what is told of one that was not.
trained 0 five "${passes[@]}"
at_once="$(told epoch loss) $(told epoch accuracy)"
trained 0 never "${passes[@]}"
expect "loss and accuracy of both passes" "$at_once" "$(told epoch loss) $(told epoch accuracy)"
# So is what is told every --log_period of them, wherever in it the run was left.
trained 0 told "${passes[@]}" --log_period 4
at_once="$(told step step) $(told step loss) $(told step accuracy)"
for at in 1 6 15; do
    trained 0 "told-$at" "${passes[@]}" --log_period 4 --max_steps $at
    cp "$T/0.json" "$T/first.json"
    trained 0 "told-$at" "${passes[@]}" --log_period 4
    grep -hv '"summary"' "$T/first.json" "$T/0.json" >"$T/both.json"
    mv "$T/both.json" "$T/0.json"
    expect "figures of a run left after $at steps" "$(told step step) $(told step loss) $(told step accuracy)" "$at_once"
    cmp "$T/told/pass-00001/state.json" "$T/told-$at/pass-00001/state.json" || fail "another place"
done

# Killed after a pass's last step, before the pass was saved: its folder is as it was then, without the pass. Its curves have what was
# told of it once.
passes+=(--log_dir "$T/killed-curves" --log_period 1)
drawn() {
    local tag
    for tag in train/loss pass/loss test/loss test/precision_recall; do
        cat "$T/killed-curves/"*tfevents* | tr -d '\0' | grep -ao "$tag" | wc -l
    done | paste -sd ' '
}
trained 0 killed "${passes[@]}" --saving_period_by_batches 12 --keep 0
judged=$(told epoch test_loss)
once=$(drawn)
rm -r "$T/killed/pass-00001"
trained 0 killed "${passes[@]}"
expect "points of each curve" "$(drawn)" "$once"
grep -q "going on from .*: pass 1 batch 12 step 24" "$T/0.log" || fail "$(cat "$T/0.log")"
expect "the pass that ended" "$(told epoch epoch) $(told epoch step)" "1 24"
expect "what it is judged" "${judged% *} $(told epoch test_loss)" "$judged"
[ -e "$T/killed/pass-00001/done" ] || fail "the pass is not saved: $(ls "$T/killed")"
trained 0 killed "${passes[@]}"
grep -q "nothing is left to do: 2 passes are made, --num_passes is 2" "$T/0.log" || fail "$(cat "$T/0.log")"
rm -r "$T"/killed/pass-0000? "$T/killed/pass-00001-batch-000000012"
trained 0 killed "${passes[@]}"
expect "passes that ended" "$(told epoch epoch)" "0 1"
expect "what they are judged" "$(told epoch test_loss)" "$judged"
expect "points of each curve" "$(drawn)" "$once"
passes=("${passes[@]:0:4}")

# An average of weights that is asked for later begins at those of then, not at nothing.
trained 0 averaged "${passes[@]}" --num_passes 1
plain=$(told epoch test_loss)
trained 0 averaged "${passes[@]}" --ema 0.99 --learning_rate 0.00001
"$PYTHON" -c 'import sys; sys.exit(abs(float(sys.argv[1]) - float(sys.argv[2])) > 0.001)' "$plain" "$(told epoch test_loss)" ||
    fail "the average is not that of the weights: $(told epoch test_loss), not $plain"

# Its curves go on, too; who begins anew in their folder sets them aside.
trained 0 drawn "${passes[@]}" --log_dir "$T/curves" --log_period 1 --max_steps 5
trained 0 drawn "${passes[@]}" --log_dir "$T/curves" --log_period 1
expect "folders of curves" "$(find "$T/curves" -mindepth 1 -type d)" ""
cp "$T/curves/train.jsonl" "$T/lines"
trained 0 new "${passes[@]}" --log_dir "$T/curves" --log_period 1 --max_steps 3
grep -q -- "--log_dir: the curves of an earlier run are in $T/curves/earlier-1 now" "$T/0.log" || fail "$(cat "$T/0.log")"
cmp "$T/lines" "$T/curves/earlier-1/train.jsonl" || fail "not what was there"
expect "what is in each" "$(wc -l <"$T/curves/train.jsonl") $(ls "$T/curves" | wc -l) $(ls "$T/curves/earlier-1" | wc -l)" "3 4 3"

# A place within a pass is of its data and its sampler: with others, the end of a pass is named, which goes on; so does the place.
refused_within() { # WHAT-TO-DO OPTIONS…
    local what=$1
    shift
    "$TRAIN" "${set[@]}" --batch_size 8 "$@" 2>"$T/0.log" >"$T/0.json" && fail "it goes on somewhere"
    grep -q "^sampan-train: --data: \(resume token: of\|other samples than those of before, though as many\) .* is within a pass, and goes on with the --data and --sampler of before: with others, $what)" \
        "$T/0.log" || fail "it does not say '$what': $(cat "$T/0.log")"
    ! grep -q "is read in the order of before" "$T/0.log" || fail "it says both: $(cat "$T/0.log")"
}
cp -r "$SRC" "$T/more"
cp "$(find "$SRC/class-000" -type f | head -n 1)" "$T/more/class-000/zz.jpg"
cp -r "$SRC" "$T/others" # as many, one of another name
first=$(find "$T/others/class-001" -type f | sort | head -n 1)
mv "$first" "$T/others/class-001/zz.jpg"
trained 0 changed --batch_size 8 --max_steps 5
refused_within "--resume never" --data "$T/more" --save_dir "$T/changed"
trained 0 changed --batch_size 8 --max_steps 17
for other in "--data $T/more" "--data $T/others" "--sampler sequence"; do
    # shellcheck disable=SC2086
    refused_within "from the end of a pass: --resume $T/changed/pass-00000, or --resume never" $other --save_dir "$T/changed"
done
trained 0 onwards --batch_size 8 --data "$T/more" --resume "$T/changed/pass-00000"
expect "samples of the pass" "$(told epoch samples)" 97
trained 0 changed --batch_size 8
expect "samples of the rest" "$(told summary samples)" 56
"$TRAIN" "${set[@]}" --batch_size 8 --max_steps 5 --data synthetic:96,4 --save_dir "$T/made" 2>"$T/0.log" >"$T/0.json" || fail "$(cat "$T/0.log")"
refused_within "--resume never" --data synthetic:97,4 --save_dir "$T/made"
refused_within "--resume never" --data synthetic:96,4 --sampler sequence --save_dir "$T/made"

# With another --seed what is left of the pass keeps its order, also where ranks have samples of their own, and those after it have
# that of now.
seed_of() { # FOLDER OF A CHECKPOINT : that of the order within it
    grep -o 'seed=[0-9]*' "$1/state.json" || fail "no place in $1"
}
for how in "--data $SRC" "--data synthetic:96,4" "--data $SRC --own_data"; do
    rm -rf "$T/seeds"
    reseeded() { # STEPS SEED
        # shellcheck disable=SC2086
        trained 0 seeds --batch_size 8 $how --saving_period 0 --max_steps "$1" --seed "$2"
    }
    reseeded 5 3
    reseeded 7 4
    grep -q "made with --seed 3, this run has 4" "$T/0.log" || fail "$how: $(cat "$T/0.log")"
    grep -q "what is left of pass 0 is read in the order of before (--sampler, --seed), the passes after it in that of this run" "$T/0.log" ||
        fail "$how: $(cat "$T/0.log")"
    expect "$how: the order within pass 0" "$(seed_of "$T/seeds/pass-00000-batch-000000007")" "seed=3"
    reseeded 14 4
    ! grep -q "made with --seed" "$T/0.log" || fail "$how: the checkpoint is of this run's seed: $(cat "$T/0.log")"
    expect "$how: the order within pass 1" "$(seed_of "$T/seeds/pass-00001-batch-000000002")" "seed=4"
    reseeded 15 4
    ! grep -q "the order of before" "$T/0.log" || fail "$how: it is no other order: $(cat "$T/0.log")"
done

#!/usr/bin/env bash
# One rank alone is asked to stop, and the other one stands still and does not even hear of it. What rank 0 has it keeps, and going on
# from it ends with the bits of ranks that nobody stopped; rank 1 can only leave. When the other one moves again, it hears that it was
# asked to stop, too, and finds nobody to do it with.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/ranks.sh"
"$SAMPAN_BUILD/tools/make-pictures" "$SRC" 4 24 48 40
options=(--device cpu --model mlp --image 8 --hidden 16 --batch_size 4 --num_passes 100000 --workers 2 --log_period 1 --json --sampler sequence
    --saving_period 0)

for asked in 1 0; do
    both "$SRC" "$SRC" --save_dir "$T/still-$asked"
    until_true 30 grep -q 'Pass=2 done' "$T/0.log" || fail "no step: $(logs)"
    kill -STOP "${ranks[1 - asked]}"
    kill -TERM "${ranks[asked]}"
    ended $asked 143
    grep -Eq "warn train: stops after step [0-9]+ without the others: asked to stop, and not all of 2 ranks have answered 10 s later$(
        [ $asked = 0 ] || echo "; the checkpoint is rank 0's"
    )\$" "$T/$asked.log" || fail "it does not say so: $(logs)"
    kill -CONT "${ranks[1 - asked]}"
    ended $((1 - asked)) 143
    grep -q "warn train: stops after step [0-9]* without the others: rank $asked of 2 has died or ended" "$T/$((1 - asked)).log" || fail "$(logs)"
    place_of "$T/still-$asked"
done
step=$(sed -n 's/.*stopped by a signal after step \([0-9]*\);.*/\1/p' "$T/0.log")
for save in still-0 still-never; do
    both "$SRC" "$SRC" --save_dir "$T/$save" --max_steps $((step + 5))
    ended 0 0
    ended 1 0
done
last=$(ls "$T/still-never")
diff -r "$T/still-0/$last" "$T/still-never/$last" || fail "not the bits of ranks that nobody stopped"

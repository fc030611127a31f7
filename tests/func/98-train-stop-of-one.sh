#!/usr/bin/env bash
# One rank alone is asked to stop, and the samples of another one hang: all stop soon, rank 0 leaves the checkpoint of the steps that
# all have made, and going on from it ends with the bits of ranks that nothing held up. Nor does a rank wait for its samples when
# another one has died. (One that stands still: 98-train-stop-of-one-alone.)
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
. "$SAMPAN_TESTS/lib/held-up.sh"
. "$SAMPAN_TESTS/lib/ranks.sh"
options+=(--saving_period 0)

both "$SRC" "$SRC" --save_dir "$T/never"
ended 0 0
ended 1 0

# The store gives the samples of the first three steps, and nothing of the others: one rank waits for them. The other one has its own,
# and is asked to stop.
hold_up
one_waits() { # RANK OPTIONS…
    data=("$SRC" "$SRC")
    data[$1]=$MNT
    both "${data[@]}" "${@:2}"
    until_held_up 0
}
for asked in 0 1; do
    one_waits $((1 - asked)) --save_dir "$T/out-$asked"
    kill -TERM "${ranks[asked]}"
    ended 0 143
    ended 1 143
    made[asked]=$(steps 0)
    grep -q "warn train: step [0-9]* is not made: samples that it needs have not come (does the storage behind $MNT answer?)" "$T/$((1 - asked)).log" ||
        fail "the wrong rank waits: $(logs)"
    for r in 0 1; do
        grep -q "stopped by a signal after step ${made[asked]};" "$T/$r.log" || fail "$(logs)"
    done
    expect "where it is" "$(place_of "$T/out-$asked")" "$(printf 'pass-00000-batch-%09d' "${made[asked]}")"
done

# It waits no longer when the other one has died, either.
for dies in 0 1; do
    one_waits $((1 - dies))
    kill -KILL "${ranks[dies]}"
    ended $((1 - dies)) 1
    grep -q "^sampan-train: rank $dies of 2 has died" "$T/$((1 - dies)).log" || fail "$(logs)"
done

faults
for asked in 0 1; do
    both "$SRC" "$MNT" --save_dir "$T/out-$asked"
    ended 0 0
    ended 1 0
    grep -q "going on from .* step ${made[asked]}" "$T/1.log" || fail "it began anew: $(logs)"
    diff -r "$T/out-$asked/pass-00003" "$T/never/pass-00003" || fail "not the bits of ranks that nothing held up"
done

#!/usr/bin/env bash
# One rank alone is asked to stop, and another one cannot come along: its samples hang, or it stands still. All that can do so
# stop soon, rank 0 leaves the checkpoint of the steps that all have made, and going on from it ends with the bits of ranks that
# nothing held up. Nor does a rank wait for its samples when another one has died.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
TRAIN="$SAMPAN_BUILD/bin/sampan-train"
"$SAMPAN_BUILD/tools/make-pictures" "$SRC" 4 24 48 40
start_nginx
start_proxy "$HTTP_URL"
mount_set "$PROXY_URL"
options=(--device cpu --model mlp --image 8 --hidden 16 --batch_size 4 --num_passes 4 --workers 2 --log_period 1 --json --sampler sequence
    --saving_period 0 --num_gradient_servers 2)
rank() { # RANK DATA OPTIONS… : its pid in ${ranks[RANK]}
    local r=$1 data=$2
    shift 2
    : >"$T/$r.json"
    "$TRAIN" "${options[@]}" --rendezvous "file://$T/place" --trainer_id "$r" --data "$data" "$@" >"$T/$r.json" 2>"$T/$r.log" &
    ranks[r]=$!
    on_exit "kill -9 $!"
}
both() { # DATA0 DATA1 OPTIONS…
    rm -f "$T/place"
    rank 0 "$1" "${@:3}"
    rank 1 "$2" "${@:3}"
}
logs() {
    tail -n 4 "$T/0.log" "$T/1.log"
}
ended() { # RANK CODE : within a time that no grace period is shorter than
    local code=0
    timeout 30 tail --pid="${ranks[$1]}" -f /dev/null || fail "rank $1 waits: $(logs)"
    wait "${ranks[$1]}" || code=$?
    expect "exit code of rank $1: $(logs)" "$code" "$2"
}
steps() {
    grep -c '"event":"step"' "$T/0.json" || true
}
has_made() { # STEPS
    [ "$(steps)" -ge "$1" ]
}
until_held_up() { # the store gives the samples of the first steps alone, and whoever needs the next ones waits
    local before
    until_true 30 has_made 1 || fail "no step: $(logs)"
    until
        before=$(steps)
        sleep 1
        [ "$(steps)" = "$before" ]
    do :; done
}
place_of() { # FOLDER : its only checkpoint
    expect "checkpoints" "$(ls "$1" | wc -l)" 1
    [ -e "$1"/pass-*/done ] || fail "it is not whole: $(ls "$1"/*)"
    ls "$1"
}

both "$SRC" "$SRC" --save_dir "$T/never"
ended 0 0
ended 1 0

# The store gives the samples of the first three steps, and nothing of the others: one rank waits for them. The other one has its own,
# and is asked to stop.
faults "stall-head key=class-001" "stall-head key=class-002" "stall-head key=class-003"
one_waits() { # RANK OPTIONS…
    data=("$SRC" "$SRC")
    data[$1]=$MNT
    both "${data[@]}" "${@:2}"
    until_held_up
}
for asked in 0 1; do
    one_waits $((1 - asked)) --save_dir "$T/out-$asked"
    made[asked]=$(steps)
    kill -TERM "${ranks[asked]}"
    ended 0 143
    ended 1 143
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

# The other one does not even hear of it: it stands still. What rank 0 has it keeps; rank 1 can only leave. When the other one moves
# again, it hears that it was asked to stop, too, and finds nobody to do it with.
for asked in 1 0; do
    both "$SRC" "$SRC" --save_dir "$T/still-$asked" --num_passes 100000
    until_true 30 has_made 50 || fail "no step: $(logs)"
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
    both "$SRC" "$SRC" --save_dir "$T/$save" --num_passes 100000 --max_steps $((step + 5))
    ended 0 0
    ended 1 0
done
last=$(ls "$T/still-never")
diff -r "$T/still-0/$last" "$T/still-never/$last" || fail "not the bits of ranks that nobody stopped"

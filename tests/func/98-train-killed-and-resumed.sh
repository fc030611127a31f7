#!/usr/bin/env bash
# Two ranks train on a mounted set; a killed one is named by the other, SIGTERM of one stops both with a checkpoint,
# and what goes on from there ends with the bits of a run that was never stopped.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
. "$SAMPAN_TESTS/lib/ratings.sh"
TRAIN="$SAMPAN_BUILD/bin/sampan-train"
make_ratings "$SRC"
mount_set "$SRC"

# One rank; its pid in $pid. No wait of it is longer than this script may take: what it waited for is said.
rank() { # RANK FOLDER [OPTIONS…]
    local r=$1 folder=$2
    shift 2
    "$TRAIN" --model movie --data "$MNT" --batch_size 30 --num_passes 100000 --trainer_id "$r" --num_gradient_servers 2 \
        --rendezvous "file://$T/place" --rendezvous_timeout 600s --collective_timeout 600s \
        --save_dir "$folder" --log_dir "$folder-curves" --histogram_period 0 "$@" 2>"$T/rank$r.log" &
    pid=$!
    on_exit "kill -9 $pid"
}
both() { # FOLDER [OPTIONS…]: starts both; $first and $second
    rm -f "$T/place"
    rank 0 "$@"
    first=$pid
    rank 1 "$@"
    second=$pid
}
newest() {
    local d
    for d in "$1"/pass-*; do
        [ ! -e "$d/done" ] || "$PYTHON" -c 'import json, sys; print(json.load(open(sys.argv[1]))["step"], sys.argv[2])' "$d/state.json" "$d"
    done 2>/dev/null | sort -n | tail -1
}
step_of() {
    newest "$1" | cut -d' ' -f1
}
past() { # FOLDER STEP
    [ "$(step_of "$1" || echo 0)" -gt "$2" ] 2>/dev/null
}
ended() { # WHAT CODE PID
    local code=0
    wait "$3" || code=$?
    [ "$code" = "$2" ] || fail "$1: exit code $code, want $2: $(cat "$T"/rank?.log)"
}

both "$T/out"
until_true 60 past "$T/out" 0 || fail "no checkpoint: $(cat "$T"/rank?.log)"
kill -9 "$second"
ended "the rank that is left" 1 "$first"
grep -q "rank 1 of 2 has died" "$T/rank0.log" || fail "who died is not said: $(cat "$T/rank0.log")"
before=$(step_of "$T/out")

both "$T/out"
until_true 60 past "$T/out" "$before" || fail "it does not go on: $(cat "$T"/rank?.log)"
kill -TERM "$second"
ended "the rank that got SIGTERM" 143 "$second"
ended "the other one" 143 "$first"
grep -q "going on from $T/out/pass-" "$T/rank1.log" || fail "rank 1 began anew: $(cat "$T/rank1.log")"
end=$(($(step_of "$T/out") + 15))

for folder in out never-stopped; do
    both "$T/$folder" --max_steps $end --saving_period 0
    ended "rank 0 to step $end" 0 "$first"
    ended "rank 1 to step $end" 0 "$second"
done
read -r _ a <<<"$(newest "$T/out")"
read -r _ b <<<"$(newest "$T/never-stopped")"
expect "the same place" "${a##*/}" "${b##*/}"
for file in "$a"/*; do
    cmp "$file" "$b/${file##*/}" || fail "${file##*/} differs from the run that was never stopped"
done

# A folder that cannot be written: the reason, and no time lost in the others' waiting.
touch "$T/file"
both "$T/file" --max_steps 5
ended "rank 0 without a folder" 3 "$first"
ended "rank 1 without a folder" 1 "$second"
grep -q "sampan-train: .*$T/file: Not a directory" "$T/rank0.log" || fail "$(cat "$T/rank0.log")"

# shellcheck shell=bash
# A training of one or more ranks. Source after common.sh.

TRAIN="$SAMPAN_BUILD/bin/sampan-train"

train_ranks() { # RANKS LOGS OPTIONS… : trains to the end; what it learns is in the folder LOGS
    local ranks=$1 logs=$2 r pids=()
    shift 2
    for ((r = 0; r < ranks; r++)); do
        "$TRAIN" --device cpu "$@" --log_period 1 --log_level warn --log_dir "$logs" \
            --trainer_id $r --num_gradient_servers "$ranks" --rendezvous "file://$logs-place" 2>"$T/rank$r.log" &
        pids+=($!)
        on_exit "kill -9 $!"
    done
    for ((r = 0; r < ranks; r++)); do
        wait "${pids[r]}" || fail "rank $r of $ranks, $*: $(cat "$T/rank$r.log")"
    done
}

# Two ranks with the `options` of who sources this, which a test watches and ends.

rank() { # RANK DATA OPTIONS… : its pid in ${ranks[RANK]}
    local r=$1 data=$2
    shift 2
    : >"$T/$r.json"
    "$TRAIN" "${options[@]}" --rendezvous "file://$T/place" --trainer_id "$r" --num_gradient_servers 2 --data "$data" "$@" >"$T/$r.json" 2>"$T/$r.log" &
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
    timeout 300 tail --pid="${ranks[$1]}" -f /dev/null || fail "rank $1 waits: $(logs)"
    wait "${ranks[$1]}" || code=$?
    expect "exit code of rank $1: $(logs)" "$code" "$2"
}

place_of() { # FOLDER : its only checkpoint
    expect "checkpoints in $1" "$(ls "$1" | wc -l)" 1
    [ -e "$1"/pass-*/done ] || fail "it is not whole: $(ls "$1"/*)"
    ls "$1"
}

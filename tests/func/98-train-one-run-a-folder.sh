#!/usr/bin/env bash
# Two runs do not write into one --save_dir or --log_dir: the second is refused with the first one's name, at once and without harm.
# One that was killed keeps nobody out. Who is of another machine takes the folder over, and the run before it ends at its next
# checkpoint; whoever only removes the file ends nothing.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
TRAIN="$SAMPAN_BUILD/bin/sampan-train"
set=(--device cpu --data synthetic:64,4 --model softmax --image 8 --batch_size 16 --log_period 1 --histogram_period 0 --num_passes 100000)
start() { # LOG OPTIONS… : its pid in $pid
    local log=$1
    shift
    : >"$T/$log"
    "${as[@]}" "$TRAIN" "${set[@]}" "$@" 2>"$T/$log" &
    pid=$!
    on_exit "kill -9 $pid"
}
as=()
ended() { # CODE TEXT LOG PID
    local code=0
    wait "$4" || code=$?
    expect "exit code: $(tail -n 3 "$T/$3")" "$code" "$1"
    grep -Eq -- "$2" "$T/$3" || fail "it does not say '$2': $(tail -n 3 "$T/$3")"
}
saves() { # LOG TIMES
    [ "$(grep -c "Saving parameters" "$T/$1")" -ge "$2" ]
}
runs() { # LOG : it goes on to save
    until_true 60 saves "$1" $(($(grep -c "Saving parameters" "$T/$1") + 2)) || fail "it does not go on: $(tail -n 3 "$T/$1")"
}
locked() { # FOLDER : the files that say who writes
    find "$1" -name '*.lock'
}

start first --save_dir "$T/out" --log_dir "$T/curves"
first=$pid
runs first
refused="another run writes there: machine $(uname -n), process $first, since 20[0-9T:-]*Z"
start second --save_dir "$T/out" --num_passes 1
ended 1 "^sampan-train: --save_dir: $refused \($T/out/saving.lock\)" second "$pid"
start second --log_dir "$T/curves" --save_dir "$T/elsewhere" --num_passes 1
ended 1 "^sampan-train: --log_dir: $refused \($T/curves/curves.lock\)" second "$pid"
expect "what a refused run leaves" "$(locked "$T/elsewhere")" ""
rm "$T/out/saving.lock"
runs first
grep -q "$T/out/saving.lock was removed, and is made again" "$T/first" || fail "$(tail -n 3 "$T/first")"
kill -9 "$first"
wait "$first" || true

start next --save_dir "$T/out" --log_dir "$T/curves"
next=$pid
runs next
grep -q "going on from $T/out/pass-" "$T/next" || fail "it began anew: $(cat "$T/next")"
! grep -q "before, " "$T/next" || fail "it takes who was killed here for one that may live: $(cat "$T/next")"
echo "machine another, process 5, since then" >"$T/new" && mv "$T/new" "$T/out/saving.lock"
ended 1 "^sampan-train: .*--save_dir: another run has taken it over: machine another, process 5, since then" next "$next"
expect "whose it stays" "$(locked "$T/out" "$T/curves")" "$T/out/saving.lock"
rm -r "$T/out/pass-"* && mkdir "$T/out/pass-00000" # what it goes on from is no claim of this test
start last --save_dir "$T/out" --num_passes 1
ended 0 "$T/out/saving.lock: before, machine another, process 5, since then wrote there; should it still run" last "$pid"
expect "after its end" "$(locked "$T/out")" ""

# A bucket that two machines mount: locks end at each.
need_mount
mkdir "$T/store"
mount_writable_at 1 "file://$T/store"
mount_writable_at 2 "file://$T/store"
start first --save_dir "$T/mnt-1/out"
first=$pid
runs first
start second --save_dir "$T/mnt-1/out" --num_passes 1
ended 1 "another run writes there: machine $(uname -n), process $first, " second "$pid"
kill -STOP "$first" # a mount sees what others stored a little later; this run saves all the time, and is not to in between
as=(unshare --uts sh -c 'hostname elsewhere && exec "$@"' sh)
start second --save_dir "$T/mnt-2/out"
runs second
until_true 60 grep -q "machine elsewhere, process $pid, since" "$T/mnt-1/out/saving.lock" || fail "$(cat "$T/mnt-1/out/saving.lock")"
kill -CONT "$first"
ended 1 "--save_dir: another run has taken it over: machine elsewhere, process $pid, since" first "$first"
grep -q "$T/mnt-2/out/saving.lock: before, machine $(uname -n), process $first, " "$T/second" || fail "$(head -n 5 "$T/second")"
kill -TERM "$pid"
ended 143 "stopped by a signal" second "$pid"
expect "after its end" "$(locked "$T/store")" ""
for i in 1 2; do
    sampan umount "$T/mnt-$i"
done

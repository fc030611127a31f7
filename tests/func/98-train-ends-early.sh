#!/usr/bin/env bash
# What ends training early says where, and leaves a checkpoint to go on from: a loss that is no number, a disk that is full, a
# newest checkpoint that is torn, or that cannot be read; fewer samples than ranks end well.
. "$SAMPAN_TESTS/lib/common.sh"
need_root "it mounts a small disk"
own_namespace
TRAIN="$SAMPAN_BUILD/bin/sampan-train"
set=(--data synthetic:64,4 --model mlp --image 8 --batch_size 16)
trained() { # CODE TEXT OPTIONS… : how training ends
    local want=$1 text=$2 code=0
    shift 2
    timeout 600 "$TRAIN" "${set[@]}" "$@" >"$T/train.json" 2>"$T/train.log" || code=$?
    [ "$code" = "$want" ] || fail "exit code $code, want $want: $(cat "$T/train.log")"
    grep -Eq -- "$text" "$T/train.log" || fail "it does not say '$text': $(cat "$T/train.log")"
}

trained 0 "done: step=4" --num_passes 1 --save_dir "$T/nan"
trained 1 "^sampan-train: .*the loss is not a number: pass [12] batch [1-4] \(step [0-9]+\): first in: rank 0, layer __[a-z_]+_[0-9]__ .*last good checkpoint: $T/nan/pass-0000" \
    --num_passes 3 --save_dir "$T/nan" --learning_rate 1000000
trained 1 "^sampan-train: .*the loss is not a number: .*: first in: the loss itself, of results that are numbers" \
    --model softmax --data synthetic:96,4 --image 16 --batch_size 8 --learning_rate 1e6 --weight_decay 1 --num_passes 50
trained 0 "going on from $T/nan/pass-00000: pass 1 batch 0 step 4" --num_passes 2 --resume "$T/nan/pass-00000"

trained 0 "done: step=8" --num_passes 2 --save_dir "$T/two"
others="warn train: --save_dir: $T/two/pass-00001 is of another run, .* those of the same names are written over"
trained 0 "$others" --num_passes 1 --save_dir "$T/two" --resume never
trained 0 "$others" --num_passes 1 --save_dir "$T/two" --resume "$T/two/pass-00000"
trained 0 "done: step=8" --num_passes 2 --save_dir "$T/two" --resume "$T/two"
! grep -q "of another run" "$T/train.log" || fail "it is where it goes on from: $(cat "$T/train.log")"

mkdir "$T/small"
mount -t tmpfs -o size=600k none "$T/small"
on_exit "umount -l $T/small"
trained 4 "^sampan-train: pass [0-9]+ batch 0: checkpoint: .*$T/small/out/pass-0000.*: No space left on device" --num_passes 30 --keep 0 --save_dir "$T/small/out"
[ -e "$T/small/out/pass-00000/done" ] || fail "the first checkpoint is gone"
for d in "$T"/small/out/pass-*; do
    [ -e "$d/done" ] || fail "half of $d is left"
done
trained 0 "going on from $T/small/out/pass-0000" --num_passes 2 --resume "$T/small/out" --json
[ "$(tail -n 1 "$T/train.json" | grep -c '"event":"summary"')" = 1 ] || fail "the last line is no summary: $(cat "$T/train.json")"

trained 0 "done: step=8" --num_passes 2 --save_dir "$T/torn"
truncate -s -1 "$T/torn/pass-00001/momentum"
trained 0 "pass-00001 is passed over: momentum: it is torn" --num_passes 3 --save_dir "$T/torn"
grep -q "going on from $T/torn/pass-00000: pass 1 batch 0 step 4" "$T/train.log" || fail "$(cat "$T/train.log")"

# One that cannot be read may be whole: none before it is taken in its place, and nothing begins anew.
trained 0 "done: step=8" --num_passes 2 --save_dir "$T/unread"
mv "$T/unread/pass-00001/state.json" "$T/state"
mkdir "$T/unread/pass-00001/state.json"
trained 1 "^sampan-train: checkpoints: $T/unread/pass-00001: state.json: Is a directory \(it may be whole: mend that and start again, or --resume " \
    --num_passes 3 --save_dir "$T/unread"
expect "checkpoints" "$(echo "$T"/unread/pass-*)" "$T/unread/pass-00000 $T/unread/pass-00001"
rmdir "$T/unread/pass-00001/state.json"
mv "$T/state" "$T/unread/pass-00001/state.json"
trained 0 "going on from $T/unread/pass-00001" --num_passes 3 --save_dir "$T/unread"

trained 2 "^sampan-train: --sampler: no batch in a pass over 5 samples" --data synthetic:5,4 --sampler paddle-distributed,drop-last=true

for r in 0 1 2; do
    timeout 600 "$TRAIN" --data synthetic:2,2 --model softmax --image 4 --batch_size 4 --trainer_id $r --num_gradient_servers 3 \
        --rendezvous "file://$T/place" 2>"$T/rank$r.log" &
    ranks[r]=$!
done
for r in 0 1 2; do
    wait "${ranks[r]}" || fail "rank $r of three with two samples: $(cat "$T/rank$r.log")"
done

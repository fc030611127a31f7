#!/usr/bin/env bash
# What the trainer is given may be wrong: pictures that are none, class folders without samples, labels and ids that the
# model does not know, a checkpoint of another net, a folder that nobody may write. Each is named; what can go on goes on.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/ratings.sh"
need_root "it mounts a file system that is read-only"
own_namespace
TRAIN="$SAMPAN_BUILD/bin/sampan-train"
trained() { # CODE TEXT OPTIONS… : how training ends
    local want=$1 text=$2 code=0
    shift 2
    timeout 600 "$TRAIN" --device cpu --image 8 "$@" >"$T/out" 2>"$T/train.log" || code=$?
    [ "$code" = "$want" ] || fail "exit code $code, want $want: $(cat "$T/train.log")"
    says "$text"
}
says() { # TEXT
    grep -Eq -- "$1" "$T/train.log" || fail "it does not say '$1': $(cat "$T/train.log")"
}

# What a CPU does not have is not asked for unheard.
trained 0 "computes on cpu: 1 thread, fp32$" --data synthetic:8,2 --precision bf16

# Three pictures of 25 cannot be decoded: an end that names the first of its batch, or they are left out, named and counted.
"$SAMPAN_BUILD/tools/make-pictures" "$SRC" 3 6 40 30 --bad
bad="class-000/bad-(cut|empty|png).jpg\): "
trained 1 "^sampan-train: sample [678] \($bad.*\(--skip_bad leaves such pictures out\)" --data "$SRC" --batch_size 4
for size in 5 1; do # with batches of one, some are empty
    trained 0 "done: step=" --data "$SRC" --batch_size $size --num_passes 2 --skip_bad --json --save_dir "$T/skipped-$size"
    expect "pictures that are named in two passes" "$(grep -Ec "warn train: left out: sample [678] \($bad" "$T/train.log")" 6
    expect "passes and how many they left out" "$(grep -c "Pass=[01] done: .* samples=22 .* skipped=3" "$T/train.log")" 2
    tail -n 1 "$T/out" >"$T/summary"
    expect "how it ended" "$(field state <"$T/summary") $(field samples <"$T/summary") $(field skipped <"$T/summary")" "done 44 6"
    [[ $(field loss <"$T/summary") =~ ^[0-9.]+$ ]] || fail "the loss: $(cat "$T/summary")"
done
mkdir -p "$T/none/a" "$T/none/b"
cp "$SRC"/class-000/bad-* "$T/none/a"
trained 1 "^sampan-train: pass 0: nothing to learn from: all 3 samples were left out" --data "$T/none" --batch_size 2 --skip_bad

# Those of what judges, too; of nothing there is no loss, which would be a perfect one.
mkdir -p "$T/judges/class-000" "$T/judges/class-001" "$T/judges/class-002"
cp "$SRC"/class-000/bad-* "$T/judges/class-000"
judging=(--data "$SRC" --batch_size 4 --skip_bad)
trained 0 "Test Pass=0 samples=22 cost=.* skipped=3$" "${judging[@]}" --test_data "$SRC" --json
expect "pictures that are named" "$(grep -Ec "warn train: --test_data: left out: sample [678] \($bad" "$T/train.log")" 3
expect "those that are counted" "$(grep '"event":"epoch"' "$T/out" | field test_skipped)" 3
trained 0 "warn train: pass 0: nothing to judge by: all 3 samples of --test_data were left out" "${judging[@]}" --test_data "$T/judges" \
    --json --log_dir "$T/curves"
! grep -rq "test_loss\|Test Pass" "$T/out" "$T/train.log" "$T/curves/train.jsonl" || fail "it has figures: $(cat "$T/out" "$T/train.log")"
expect "those that are counted" "$(grep '"event":"epoch"' "$T/out" | field test_skipped)" 3
judged_by_two() { # OPTIONS… : what rank 0 tells is in $T/out0
    local r ranks=()
    rm -f "$T/place-judging"
    for r in 0 1; do
        timeout 600 "$TRAIN" --device cpu --image 8 "$@" --json --trainer_id $r --num_gradient_servers 2 \
            --rendezvous "file://$T/place-judging" >"$T/out$r" 2>"$T/rank$r.log" &
        ranks[r]=$!
    done
    wait "${ranks[0]}" && wait "${ranks[1]}" || fail "$(cat "$T/rank0.log" "$T/rank1.log")"
}
judged_by_two "${judging[@]}" --test_data "$SRC"
expect "what two ranks count" "$(grep '"event":"epoch"' "$T/out0" | field test_skipped)" 3
# What makes the shares of two equally long is another's, and only that one's when it is bad.
mkdir -p "$T/filled/class-000" "$T/filled/class-001" "$T/filled/class-002"
cp "$SRC"/class-000/bad-cut.jpg "$T/filled/class-000"
cp "$SRC"/class-001/000003.jpg "$T/filled/class-001"
cp "$SRC"/class-002/000003.jpg "$T/filled/class-002"
for size in 1 4; do
    judged_by_two --data "$SRC" --batch_size $size --skip_bad --test_data "$T/filled"
    expect "what is counted, in batches of $size" "$(grep '"event":"epoch"' "$T/out0" | field test_skipped)" 1
    expect "who names it" "$(cat "$T/rank0.log" "$T/rank1.log" | grep -c "test_data: left out: sample 0 ")" 1
    grep -q "Test Pass=0 samples=2 " "$T/rank0.log" || fail "$(cat "$T/rank0.log")"
done

# One that cannot be read is none of those: the store may have failed, and training would go on with what is left of the set.
cp -r "$SRC" "$T/shrinks"
timeout 600 "$TRAIN" --device cpu --image 8 --data "$T/shrinks" --batch_size 5 --num_passes 20000 --skip_bad --log_period 100000 \
    >"$T/out" 2>"$T/shrinks.log" &
pid=$!
until_true 60 grep -q "Pass=0 done\|^sampan-train" "$T/shrinks.log" || fail "no pass: $(cat "$T/shrinks.log")"
rm "$T/shrinks/class-001/000003.jpg"
code=0
wait "$pid" || code=$?
expect "exit code of a run that a sample was taken from" "$code" 3
cp "$T/shrinks.log" "$T/train.log"
says "^sampan-train: sample [0-9]+ \(class-001/000003.jpg\): open: No such file or directory$"
! grep -q "left out: .*class-001" "$T/train.log" || fail "it was left out: $(cat "$T/train.log")"

# Folders without samples count as classes, which is said; a set of nothing but them is none.
mkdir -p "$T/set/a" "$T/set/empty" "$T/set/z" "$T/void/a"
cp "$SRC"/class-001/* "$T/set/a"
cp "$SRC"/class-002/* "$T/set/z"
trained 0 "warn train: --data: 1 of 3 class folders is empty, the first: empty$" --data "$T/set" --save_dir "$T/saved"
expect "classes of the model" "$(field classes <"$T/saved/pass-00000/state.json")" '["a", "empty", "z"]'
trained 3 "^sampan-train: --data: no sample in $T/void" --data "$T/void"
trained 3 "^sampan-train: --data: .*$T/nowhere: No such file" --data "$T/nowhere"

# What judges must have the labels of what was learned from: a class more, one less, others.
for missing in empty z; do
    cp -r "$T/set" "$T/without-$missing"
    rm -r "$T/without-$missing/$missing"
done
cp -r "$T/set" "$T/more"
cp -r "$T/set/a" "$T/more/zz"
trained 2 "^sampan-train: --test_data: class 1 is 'z', of --data it is 'empty'" --data "$T/set" --test_data "$T/without-empty"
trained 2 "^sampan-train: --test_data: class 2 is '', of --data it is 'z'" --data "$T/set" --test_data "$T/without-z"
trained 2 "^sampan-train: --test_data: class 3 is 'zz', of --data it is ''" --data "$T/set" --test_data "$T/more"
trained 2 "^sampan-train: --test_data: 5 classes, --data has 3" --data synthetic:9,3 --test_data synthetic:9,5
trained 0 "Test Pass=0 samples=12 " --data "$T/set" --test_data "$T/set"

# Ratings: stars out of their range, a film that nobody knows, a line cut off; ids beyond the model's tables.
make_ratings "$T/ratings"
for line in 7::7::11::1 7::61::5::1 7::7; do
    { head -n 5 "$T/ratings/ratings.dat"; echo "$line"; } >"$T/ratings/ratings.list"
    trained 1 "^sampan-train: --data: $T/ratings/ratings.list line 6: no such fields, or a user or movie that" --model movie --data "$T/ratings"
done
rm "$T/ratings/ratings.list"
cp -r "$T/ratings" "$T/others"
sed -i 's/^40::/90000::/' "$T/others/users.dat" "$T/others/ratings.dat"
trained 2 "^sampan-train: test: --test_data: id 90000 of input 0: what is learned from --data has " \
    --model movie --data "$T/ratings" --test_data "$T/others"

# Two ranks, each with data of its own that do not fit together: said by both, before anything is added up.
two_ranks() { # WHAT BOTH-SAY DATA0 DATA1 OPTIONS…
    local what=$1 says=$2 data=("$3" "$4") ranks=() r code
    shift 4
    for r in 0 1; do
        timeout 600 "$TRAIN" "$@" --data "${data[r]}" --own_data --trainer_id $r --num_gradient_servers 2 \
            --rendezvous "file://$T/place-$what" 2>"$T/rank$r.log" &
        ranks[r]=$!
    done
    for r in 0 1; do
        code=0
        wait "${ranks[r]}" || code=$?
        expect "exit code of rank $r, other $what" "$code" 2
    done
    grep -q "^sampan-train: rank 1 has $says: " "$T/rank1.log" || fail "$(cat "$T/rank1.log")"
    grep -q "^sampan-train: rank 1 has $says (see its log)" "$T/rank0.log" || fail "$(cat "$T/rank0.log")"
}
two_ranks data "another model than rank 0" "$T/ratings" "$T/others" --model movie

# A checkpoint of another net, of other pictures, of other classes: never gone on from, never replaced.
trained 0 "done: step=2" --data synthetic:64,4 --model mlp --save_dir "$T/mlp"
of_another="$T/mlp/?.*: it is of another model \("
trained 2 "^sampan-train: checkpoints: ${of_another}mlp\) \(another --save_dir, or --resume never, which writes over them\)" --data synthetic:64,4 --save_dir "$T/mlp"
trained 2 "^sampan-train: checkpoints: ${of_another}___fc_layer_0__.w0 does not fit\)" --data synthetic:64,4 --model mlp --image 16 --save_dir "$T/mlp"
trained 2 "^sampan-train: checkpoints: ${of_another}___fc_layer_2__.w0 does not fit\)" --data synthetic:64,5 --model mlp --save_dir "$T/mlp"
trained 2 "^sampan-train: --resume: checkpoint $T/mlp/pass-00000: it is of another model" --data synthetic:64,4 --model mlp --hidden 64 \
    --resume "$T/mlp/pass-00000"
expect "checkpoints" "$(ls "$T/mlp")" pass-00000

# The same shape, but a label meant another class: refused, in one checkpoint or a folder of them, until it is said to be meant so.
mkdir "$T/renamed"
cp -r "$T/set/a" "$T/set/empty" "$T/renamed"
cp -r "$T/set/z" "$T/renamed/zebra"
other="it has other classes: class 2 of 3 was 'z', in --data it is 'zebra' \(--accept_classes "
trained 0 "done: step=" --data "$T/set" --save_dir "$T/named"
trained 2 "^sampan-train: checkpoints: $T/named: none is of this model: $other" --data "$T/renamed" --save_dir "$T/named" --num_passes 2
trained 2 "^sampan-train: --resume: checkpoint $T/named/pass-00000: $other" --data "$T/renamed" --resume "$T/named/pass-00000"
expect "checkpoints" "$(ls "$T/named")" pass-00000
old_checkpoint() { # FOLDER: as programs wrote it that kept neither names nor the optimizer
    "$PYTHON" - "$1" <<'PY'
import json, sys
state = json.load(open(sys.argv[1] + "/state.json"))
for key in "classes", "shape", "optimizer":
    del state[key]
text, crc = json.dumps(state).encode(), 0xffffffff
for byte in text:
    crc ^= byte
    for _ in range(8):
        crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
open(sys.argv[1] + "/state.json", "wb").write(text)
open(sys.argv[1] + "/done", "w").write("sampan-checkpoint 1 %08x\n" % (crc ^ 0xffffffff))
PY
}
cp -r "$T/named" "$T/old"
old_checkpoint "$T/old/pass-00000"
trained 0 "going on from $T/old/pass-00000" --data "$T/renamed" --save_dir "$T/old" --num_passes 2
! grep -q "begins anew" "$T/train.log" || fail "its momentum is gone: $(cat "$T/train.log")"
trained 0 "going on from $T/named/pass-00000" --data "$T/renamed" --save_dir "$T/named" --num_passes 2 --accept_classes
expect "classes of the model" "$(field classes <"$T/named/pass-00001/state.json")" '["a", "empty", "zebra"]'
trained 0 "going on from $T/named/pass-00001" --data "$T/renamed" --save_dir "$T/named" --num_passes 3 --optimizer lars
says "the checkpoint was made with --optimizer momentum: momentum begins anew"

# A class folder's name may be of any bytes: a run goes on from its own checkpoint.
cp -r "$T/set" "$T/bytes"
mv "$T/bytes/z" "$T/bytes/"$'rouge\xe9'
trained 0 "done: step=" --data "$T/bytes" --save_dir "$T/of-bytes"
expect "classes of the model" "$(field classes <"$T/of-bytes/pass-00000/state.json")" '["a", "empty", {"hex": "726f756765e9"}]'
trained 0 "going on from $T/of-bytes/pass-00000" --data "$T/bytes" --save_dir "$T/of-bytes" --num_passes 2

# Two ranks whose labels have other names would add up gradients of different things.
two_ranks classes "classes of other names than rank 0" "$T/set" "$T/renamed" --device cpu --image 8

# A folder that cannot be written is said before the first step, not after hours.
mkdir "$T/fixed"
mount -t tmpfs -o size=4m none "$T/fixed"
on_exit "umount -l $T/fixed"
mkdir "$T/fixed/old"
mount -o remount,ro "$T/fixed"
trained 4 "^sampan-train: checkpoints: write to $T/fixed/old: Read-only file system" --data synthetic:64,4 --save_dir "$T/fixed/old"
! grep -q "Pass=0" "$T/train.log" || fail "it learned first: $(cat "$T/train.log")"
trained 4 "^sampan-train: checkpoints: write to $T/fixed: Read-only file system" --data synthetic:64,4 --save_dir "$T/fixed/new"
trained 3 "^sampan-train: checkpoints: write to $T/no: No such file" --data synthetic:64,4 --save_dir "$T/no/out"

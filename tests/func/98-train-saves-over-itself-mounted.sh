#!/usr/bin/env bash
# A checkpoint that takes the place of a whole one of its name, on a mount that cannot exchange two folders: the new one is
# there, whole, in the store, too, and nothing is left beside it.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
use_store # use_s3
TRAIN="$SAMPAN_BUILD/bin/sampan-train"
mount_writable "$STORE/run"
trained() { # OPTIONS…
    timeout 300 "$TRAIN" --device cpu --data synthetic:64,4 --model mlp --image 8 --batch_size 16 --save_dir "$MNT/out" "$@" \
        2>"$T/train.log" || fail "$(cat "$T/train.log")"
}
trained --seed 1
stored cat run/out/pass-00000/state.json >"$T/first"
trained --seed 2 --resume never
expect "seed" "$(field seed <"$MNT/out/pass-00000/state.json")" 2
cmp -s "$T/first" "$MNT/out/pass-00000/state.json" && fail "it is the one of before"
expect "checkpoints" "$(cd "$MNT/out" && echo pass-* saving.n* saving.ol*)" "pass-00000 saving.n* saving.ol*"
sampan flush "$MNT"
expect "beside it in the store" "$(keys | grep -v "^run/out/pass-00000/" | grep -v lock)" ""
for file in "$MNT"/out/pass-00000/*; do
    stored cat "run/out/pass-00000/${file##*/}" | cmp - "$file" || fail "the store has another ${file##*/}"
done
trained --seed 2 --num_passes 2
grep -q "going on from $MNT/out/pass-00000: pass 1" "$T/train.log" || fail "$(cat "$T/train.log")"
unmount

#!/usr/bin/env bash
# The program on a GPU, of which a stand-in computes on the host: what `make cuda` runs where there is one, of a small model. The
# losses are the CPU's, samples come made up and from a mount, and what is waited for them is a part of the time. It goes on from
# a checkpoint with the same bits, and what was learnt there answers.
. "$SAMPAN_TESTS/lib/common.sh"
PATH=$SAMPAN_BUILD/bin:$PATH
export SAMPAN_CUDA_LIBS=$SAMPAN_BUILD/lib/fake-cuda.so
[ -f "$SAMPAN_CUDA_LIBS" ] || fail "no $SAMPAN_CUDA_LIBS (make all tools)"

MODEL=mlp IMAGE=16 STEPS=13 BATCH=8 PICTURES=32 "$SAMPAN_TESTS/cuda/run.sh" "$SAMPAN_BUILD" >"$T/said" 2>&1 || fail "$(cat "$T/said")"
grep -q "resnet18, 4 steps: the loss is .* on the GPU" "$T/said" || fail "$(cat "$T/said")"
for what in "mlp, fp32" "mlp, bf16" "mlp, 32 JPEGs"; do
    share=$(sed -n "s/.*run: $what.*waiting for samples \([0-9.]*\) %.*/\1/p" "$T/said")
    awk -v share="$share" 'BEGIN { exit !(share != "" && share <= 100) }' || fail "$what: waits $share %: $(cat "$T/said")"
done

make_pictures() {
    "$SAMPAN_BUILD/tools/make-pictures" "$T/pictures" 2 12 40 30
}
learn() { # FOLDER STEPS
    sampan-train --device cuda --model mlp --hidden 8 --image 8 --data "$T/pictures" --batch_size 5 --num_passes 2 --max_steps "$2" \
        --saving_period_by_batches 1 --save_dir "$T/$1" --log_level error --seed 3 2>"$T/why" || fail "$(cat "$T/why")"
}
make_pictures
learn whole 9
for steps in 2 6 9; do
    learn parts "$steps"
done
for file in "$T"/whole/pass-00001-batch-000000004/___fc_layer_*; do
    cmp "$file" "$T/parts/pass-00001-batch-000000004/${file##*/}" || fail "${file##*/} is another one"
done

sampan-train predict --checkpoint "$T/whole" --device cuda --listen 127.0.0.1:0 2>"$T/log/predict" &
on_exit "kill $!; wait $!"
until_true 20 grep -q "ready port=" "$T/log/predict" || fail "$(cat "$T/log/predict")"
port=$(sed -n 's/.*ready port=\([0-9]*\).*/\1/p' "$T/log/predict")
grep -q "computes on GPU 0: " "$T/log/predict" || fail "it answers on another device: $(cat "$T/log/predict")"
for _ in 1 2 3; do
    curl -sS --fail-with-body -H "Content-Type: image/jpeg" --data-binary "@$(find "$T/pictures" -name '*.jpg' -print -quit)" \
        "http://127.0.0.1:$port/v1/predict" >"$T/answer" || fail "$(cat "$T/answer")"
    grep -q '"predictions"' "$T/answer" || fail "$(cat "$T/answer")"
done

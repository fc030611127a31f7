#!/usr/bin/env bash
# Two to four ranks learn what one rank with their batches together does: the losses of 100 steps are the same within 1e-5, be the
# model linear or not, and so is what they judge by. (A residual net: 98-train-resnet-ranks.)
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/ranks.sh"
models=(softmax:0.0005 mlp:0.01)
for model in "${models[@]}"; do
    for ranks in 1 2 3 4; do
        train_ranks $ranks "$T/${model%:*}-$ranks" --model "${model%:*}" --learning_rate "${model#*:}" --image 8 --hidden 32 \
            --data synthetic:4800,5 --test_data synthetic:241,5 --batch_size $((96 / ranks)) --num_passes 2 --schedule cosine --warmup_passes 1 \
            --weight_decay 0.001 --label_smoothing 0.1 --histogram_period 0
    done
done
"$PYTHON" - "$T" "${models[@]%:*}" <<'PY' || fail "ranks do not learn as one does"
import json, sys
wrong = False
for model in sys.argv[2:]:
    lines = {n: [json.loads(line) for line in open(f"{sys.argv[1]}/{model}-{n}/train.jsonl")] for n in (1, 2, 3, 4)}
    curves = {n: [line["loss"] for line in lines[n] if "loss" in line] for n in lines}
    judged = {n: [line["test_loss"] for line in lines[n] if "test_loss" in line] for n in lines}
    one = curves[1]
    print(f"{model}: {len(one)} losses from {one[0]:.4f} to {one[-1]:.4f}")
    wrong |= len(one) != 100 or len(judged[1]) != 2 or one[-1] > 0.9 * one[0]
    for n in 2, 3, 4:
        off = max(abs(a / b - 1) for a, b in zip(curves[n] + judged[n], one + judged[1], strict=True))
        print(f"{n} ranks: off by at most {off:.1e}")
        wrong |= off > 1e-5
sys.exit(wrong)
PY

# Pictures, too, are judged once each: by as many ranks as there are, or more.
"$SAMPAN_BUILD/tools/make-pictures" "$T/many" 3 4 20 20
"$SAMPAN_BUILD/tools/make-pictures" "$T/few" 3 1 20 20
for ranks in 1 2 4; do
    train_ranks $ranks "$T/few-$ranks" --model softmax --image 8 --data "$T/many" --test_data "$T/few" --batch_size $((12 / ranks)) --num_passes 1
    grep -h -o '"test_loss":[^,]*' "$T/few-$ranks/train.jsonl" >"$T/judged-$ranks"
done
"$PYTHON" - "$T" <<'PY' || fail "pictures: judged otherwise"
import sys
one, *more = [float(open(f"{sys.argv[1]}/judged-{n}").read().split(":")[1]) for n in (1, 2, 4)]
print(one, more)
sys.exit(any(abs(loss / one - 1) > 1e-5 for loss in more))
PY

# A sampler that has no shares gives each rank all samples, as the frameworks' do: nobody finds out by the figures alone.
for how in "sequence 2 1" "torch-random 2 1" "torch-distributed 2 0" "sequence 1 0"; do
    read -r sampler ranks warnings <<<"$how"
    train_ranks "$ranks" "$T/undealt-$sampler-$ranks" --model softmax --image 8 --data synthetic:64,4 --batch_size 8 --sampler "$sampler"
    expect "$how: warnings" "$(cat "$T"/rank[01].log | grep -c "warn train: --sampler $sampler: each of 2 ranks reads all samples")" "$warnings"
    rm "$T"/rank?.log
done

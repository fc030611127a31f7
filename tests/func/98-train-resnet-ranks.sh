#!/usr/bin/env bash
# A residual net over two and four ranks learns as one rank with their batches together does: the mean loss is within 2 %, each within 5 %. It cannot
# be the same, as each rank normalises by its own batch. Nothing here is left to chance: a machine gives the same losses each time.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/ranks.sh"
for ranks in 1 2 4; do
    train_ranks $ranks "$T/of-$ranks" --model resnet18 --image 32 --data synthetic:2048,4 --batch_size $((128 / ranks)) --max_steps 12 \
        --learning_rate 0.008 --label_smoothing 0.1
done
"$PYTHON" - "$T" <<'PY' || fail "ranks do not learn as one does"
import json, sys
curves = {n: [json.loads(line)["loss"] for line in open(f"{sys.argv[1]}/of-{n}/train.jsonl")] for n in (1, 2, 4)}
one, wrong = curves[1], 0
for n in 2, 4:
    off = abs(sum(curves[n]) / sum(one) - 1)
    most = max(abs(a / b - 1) for a, b in zip(curves[n], one))
    print(f"{n} ranks: the mean of {len(one)} losses is off by {100 * off:.2f} %, one step by {100 * most:.2f} %")
    wrong |= not 0 < off <= 0.02 or most > 0.05  # with gradients that are not summed a step is off by 10 to 20 %
print("one rank: " + " ".join(f"{x:.3f}" for x in one))
sys.exit(wrong or len(one) != 12 or one[-1] > 0.9 * one[0])
PY

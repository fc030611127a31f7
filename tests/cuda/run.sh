#!/bin/bash
# run.sh BUILD: trains on the GPU that is here. What costs and losses are is compared with the CPU; how fast it is is
# printed, beside PyTorch's eager step where that is installed.
set -eu -o pipefail
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
SAMPLES=${SAMPLES:-2048} BATCH=${BATCH:-256}

# The last line that a training says of itself.
train() { # OPTIONS…
    "$build/bin/sampan-train" --log_level error --json "$@" >"$work/lines" 2>"$work/why" && tail -n 1 "$work/lines"
}
field() { # NAME: of a summary
    python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"
}

if ! train --device cuda --model softmax --data synthetic:64,4 >/dev/null; then
    echo "cuda: SKIPPED run: $(tail -n 1 "$work/why")"
    exit 0
fi
same=(--model resnet18 --image 32 --data synthetic:128,10 --batch_size 32 --max_steps 4 --precision fp32)
cpu=$(train --device cpu "${same[@]}" | field loss)
gpu=$(train --device cuda "${same[@]}" | field loss)
echo "cuda: run: resnet18, 4 steps: the loss is $cpu on the CPU, $gpu on the GPU"
python3 -c 'import sys; a, b = map(float, sys.argv[1:]); sys.exit(abs(a - b) > 1e-2 * abs(a))' "$cpu" "$gpu" ||
    { echo "cuda: run: FAILED: they are more than 1 % apart"; exit 1; }
for precision in fp32 bf16; do
    rate=$(train --device cuda --model resnet50 --data "synthetic:$SAMPLES,1000" --num_passes 2 --batch_size "$BATCH" \
        --precision $precision | field samples_per_s) || { echo "cuda: run: $precision FAILED: $(tail -n 1 "$work/why")"; exit 1; }
    echo "cuda: run: resnet50, $precision, batches of $BATCH: $rate samples/s"
done
if ! python3 -c 'import torch, torchvision; assert torch.cuda.is_available()' 2>/dev/null; then
    echo "cuda: SKIPPED beside PyTorch: python3 has no torch and torchvision that see the GPU"
    exit 0
fi
python3 - "$BATCH" <<'PY' | sed 's/^/cuda: run: /'
import sys
import time

import torch
import torchvision

batch = int(sys.argv[1])
model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
images = torch.randn(batch, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
labels = torch.randint(1000, (batch,), device="cuda")
for step in range(30):
    if step == 10:
        torch.cuda.synchronize()
        began = time.monotonic()
    with torch.autocast("cuda", torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
torch.cuda.synchronize()
print(f"PyTorch, eager, bf16, the same on samples that lie on the GPU: {20 * batch / (time.monotonic() - began):.0f} samples/s")
PY

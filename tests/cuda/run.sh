#!/bin/bash
# run.sh BUILD: trains on the GPU that is here. Losses are compared with the CPU's; how fast it is is printed, of made-up samples
# and of pictures (from a mount whose cache holds them, where mounting works), beside PyTorch's eager step where that is installed.
set -eu -o pipefail
build=$1
work=$(mktemp -d)
trap 'end' EXIT
MODEL=${MODEL:-resnet50} IMAGE=${IMAGE:-224} STEPS=${STEPS:-30} BATCH=${BATCH:-256} PICTURES=${PICTURES:-4096}

end() {
    ! mountpoint -q "$work/mnt" || "$build/bin/sampan" umount "$work/mnt"
    rm -rf "$work"
}

# The last line that a training says of itself.
train() { # OPTIONS…
    "$build/bin/sampan-train" --log_level error --json "$@" >"$work/lines" 2>"$work/why" && tail -n 1 "$work/lines"
}
field() { # NAME: of a summary
    python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"
}
# Of the steps of a training, those after the first ten: before, kernels are loaded, ways chosen, steps recorded.
steps() {
    python3 - "$work/lines" <<'PY'
import json
import statistics
import sys

steps = [line for line in map(json.loads, open(sys.argv[1])) if line["event"] == "step"][10:]
print(f"{statistics.median(s['samples_per_s'] for s in steps):.0f} samples/s, waiting for samples "
      f"{statistics.mean(s['stall_percent'] for s in steps):.2f} % (median and mean of {len(steps)} steps)")
PY
}
model=(--device cuda --model "$MODEL" --image "$IMAGE" --batch_size "$BATCH" --log_period 1)

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
    train "${model[@]}" --data "synthetic:$((STEPS * BATCH)),1000" --precision $precision >/dev/null ||
        { echo "cuda: run: $precision FAILED: $(tail -n 1 "$work/why")"; exit 1; }
    echo "cuda: run: $MODEL, $precision, batches of $BATCH: $(steps)"
done

mkdir "$work/pictures" "$work/mnt"
"$build/tools/make-pictures" "$work/pictures" 8 "$((PICTURES / 8))" 500 375
data=$work/pictures
if "$build/bin/sampan" mount "file://$work/pictures" "$work/mnt" --cache "ssd:$work/cache=8GiB" 2>"$work/why" &&
    "$build/bin/sampan" warmup "$work/mnt" >/dev/null; then
    data=$work/mnt
else
    echo "cuda: run: pictures from a plain folder: $(tail -n 1 "$work/why")"
fi
train "${model[@]}" --data "$data" --num_passes $((2 + 20 * BATCH / PICTURES)) >/dev/null ||
    { echo "cuda: run: pictures FAILED: $(tail -n 1 "$work/why")"; exit 1; }
echo "cuda: run: $MODEL, $PICTURES JPEGs of about 500x375 from ${data##*/}, $(nproc) cores decode: $(steps)"
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

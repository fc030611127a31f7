#!/usr/bin/env bash
# `sampan bench au` feeds emulated accelerators: each a rank of the sampler, every sample read once; a mount is
# measured blind and told, a plain folder blind; the mount's own sampler stands again afterwards.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 12 --size 3000
mount_set "file://$SRC" --sampler sequence
sampan bench au "$MNT" --model cosmoflow --accelerators 2 --compare "$SRC" --svg "$T/au.svg" --json >"$T/au.json"
"$PYTHON" - "$T/au.json" "$MNT" "$SRC" <<'PY' || fail "the figures"
import json
import sys

report = json.load(open(sys.argv[1]))
want = [(sys.argv[2], "blind"), (sys.argv[2], "clairvoyant"), (sys.argv[3], "blind")]
assert [(r["dir"], r["order"]) for r in report["runs"]] == want, report
assert (report["batch"], report["min_au"], report["accelerators"]) == (1, 0.7, 2), report
for run in report["runs"]:
    assert (run["samples"], run["steps"], run["bytes"], run["errors"]) == (24, 24, 72000, 0), run
    assert 0 < run["au_worst"] <= run["au"] <= 1, run
    # 12 steps of 3.5 ms each, however fast it was read
    assert run["seconds"] >= 12 * 0.0035, run
PY
grep -q "CosmoFlow on an H100, 2 of them" "$T/au.svg" || fail "the picture"
expect "the sampler as before" "$(status order.sampler | cut -d, -f1)" sequence
# Interrupted it says so, and the sampler stands again as well.
"$SAMPAN" bench au "$MNT" --model cosmoflow --mode clairvoyant --epochs 100000 >"$T/au.txt" 2>"$T/au.err" &
bench=$! code=0
told() { [ "$(status order.sampler | cut -d, -f1)" = torch-distributed ]; }
until_true 20 told || fail "the mount was not told the order"
kill -INT $bench
wait $bench || code=$?
expect "exit code of one interrupted" $code 130
grep -q "^sampan bench: interrupted" "$T/au.err" || fail "$(cat "$T/au.err")"
expect "the sampler as before" "$(status order.sampler | cut -d, -f1)" sequence
sampan bench au "$SRC" --model resnet50 --steps 1 >"$T/au.txt"
grep -Eq "^blind +0 .* $SRC" "$T/au.txt" || fail "the table"
grep -q "fewer than 10 steps an accelerator say little" "$T/au.txt" || fail "one step is taken for a measurement"
sampan bench au "$SRC" --model cosmoflow --accelerators 2 | has "fewer than" && fail "12 steps are taken for few"
# A picture that cannot be written is said before anything is measured.
for file in "$T/nowhere/au.svg" "$T" "$T/au.txt/au.svg" ""; do
    code=0
    sampan bench au "$SRC" --model resnet50 --steps 1 --svg "$file" >"$T/out" 2>"$T/why" || code=$?
    [ "$code" != 0 ] && grep -q -- "--svg: " "$T/why" || fail "$file: exit code $code: $(cat "$T/why")"
    [ ! -s "$T/out" ] || fail "$file: it was measured first: $(cat "$T/out")"
done
# Every workload, with the constants of the benchmark, over two mounts and a folder in one run.
mkdir "$T/second"
sampan mount "file://$SRC" "$T/second" --cache "ssd:$T/cache-of-second=1GiB" --quiet
while read -r model batch step min; do
    sampan bench au "$SRC" --model "$model" --steps 2 --compare "$MNT,$T/second" --svg "$T/$model.svg" --json >"$T/$model.json"
    "$PYTHON" - "$T/$model.json" "$batch" "$step" "$min" "$SRC" "$MNT" "$T/second" <<'PY' || fail "$model"
import json
import sys

report = json.load(open(sys.argv[1]))
batch, step, least = int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
assert (report["batch"], report["step_s"], report["min_au"]) == (batch, step, least), report
folder, *mounts = sys.argv[5:]
want = [(folder, "blind")] + [(m, order) for m in mounts for order in ("blind", "clairvoyant")]
assert [(r["dir"], r["order"]) for r in report["runs"]] == want, report
samples = min(24, 2 * batch)
for run in report["runs"]:
    steps = -(-samples // batch)
    assert (run["samples"], run["steps"], run["bytes"], run["errors"]) == (samples, steps, 3000 * samples, 0), run
    assert 0 < run["au_worst"] == run["au"] <= 1 and run["met"] == (run["au"] >= least), run
    # time computed of time passed from the first batch on: so many steps of just that length, however long sleeps were
    passed = run["seconds"] - run["first_batch_s"]
    assert run["seconds"] >= steps * step and abs(run["au"] * passed / (steps * step) - 1) < 0.001, run
PY
    expect "bars of $model" "$(grep -c '#2a7ab0\|#8a8f98' "$T/$model.svg")" 5
done <<'END'
resnet50 400 0.224 0.9
retinanet 24 0.04755 0.85
unet3d 7 0.323 0.9
cosmoflow 1 0.0035 0.7
END
sampan umount "$T/second"
# What the first batch waits for is no part of AU, and is told.
start_nginx
start_proxy "$HTTP_URL"
faults "latency=300ms key=.bin"
sampan mount "$PROXY_URL/" "$T/second" --cache "ssd:$T/cache-of-far=1GiB" --quiet
sampan bench au "$T/second" --model resnet50 --mode blind --json >"$T/far.json"
sampan umount "$T/second"
"$PYTHON" - "$T/far.json" <<'PY' || fail "the first batch"
import json
import sys

run, = json.load(open(sys.argv[1]))["runs"]
assert run["first_batch_s"] >= 0.3 and run["seconds"] >= 0.3 + 0.224 and run["steps"] == 1 and run["au"] > 0.5, run
PY
# A sample that cannot be read: counted, named, and the run is none that met anything.
cp -r "$SRC" "$T/bad"
ln -s /proc/self/mem "$T/bad/class-000/bad.bin"
status=0
sampan bench au "$T/bad" --model cosmoflow --json >"$T/bad.json" 2>"$T/bad.err" || status=$?
expect "exit" "$status" 1
grep -q "1 sample of $T/bad failed.*bad.bin" "$T/bad.err" || fail "the reason: $(cat "$T/bad.err")"
expect "errors" "$("$PYTHON" -c 'import json, sys; r = json.load(open(sys.argv[1]))["runs"][0]; print(r["errors"], r["met"])' "$T/bad.json")" "1 False"
refused 2 "unknown model" sampan bench au "$SRC" --model alexnet
refused 2 "no mounted set" sampan bench au "$SRC" --mode clairvoyant --model cosmoflow
refused 2 "no rank=" sampan bench au "$SRC" --sampler torch-distributed,ranks=2,rank=1
refused 3 "nonexistent" sampan bench au "$T/nonexistent"
little_room() { # OPTIONS… : of the address space
    (ulimit -v 4000000 && sampan bench "$@")
}
for what in au epoch; do
    refused 4 "one more reader of --threads, with its --buffer: Cannot allocate" little_room $what "$SRC" --threads 8 --buffer 1GiB
done
# One to compare with that is not there is said first: nothing was measured for it.
mkdir "$T/empty"
for other in "$T/nonexistent:No such file" "$T/au.txt:Not a directory"; do
    refused 3 "--compare: ${other/:/: }" sampan bench au "$T/empty" --compare "$SRC,${other%:*}"
done
unmount

#!/usr/bin/env bash
# A training of any framework has curves: what sampan.LogWriter writes is what `sampan-train ui` shows, each record whole
# even where the disk is full, and a value that no format can hold is refused.
. "$SAMPAN_TESTS/lib/common.sh"
use_loader
mkdir "$T/pictures"
"$SAMPAN_BUILD/tools/make-pictures" "$T/pictures" 2 8 24 20
cat >"$T/write.py" <<'PY'
import math, os, resource, signal, sys
import numpy, sampan

T = sys.argv[1]
with sampan.LogWriter(f"{T}/curves/one") as log, sampan.Loader(f"{T}/pictures", batch_size=4, size=16) as loader:
    steps = 0
    for images, labels in loader:
        steps += 1
        log.add_step(steps, loss=1 / steps, accuracy=math.nan if steps == 2 else 0.5, epoch=3, batch=steps, loader=loader)
    assert steps == 4, steps
    for step in (0, 5):
        log.add_histogram("weights", numpy.arange(100.0) * (step + 1), step)
        log.add_image("noise", numpy.full((4, 6, 3), step, "u1"), step)
    log.add_histogram("nothing", [math.nan], 0)
    for n, numbers in enumerate(([3e38] * 3, [1e9, numpy.nextafter(1e9, 2e9)], [-1e308, 1e308, 7], [1e200, -1e200])):  # a training that has blown up
        with numpy.errstate(all="raise"):
            log.add_histogram("large", numbers, n)
    for what, call, kind in [("a tag with %", lambda: log.add_scalar("a%b", 1, 1), ValueError), ("no tag", lambda: log.add_scalar("", 1, 1), ValueError),
                             ("two colours", lambda: log.add_image("x", numpy.zeros((3, 3, 2), "u1"), 1), ValueError),
                             ("wide pixels", lambda: log.add_image("x", numpy.zeros((3, 3), "i4"), 1), TypeError),
                             ("half a step", lambda: log.add_scalar("x", 1, 1.5), TypeError),
                             ("a step that is cut off", lambda: log.add_scalar("x", 1, 2 ** 64 + 1), ValueError),
                             ("one without figures", lambda: log.add_step(2 ** 63), ValueError),
                             ("half an epoch", lambda: log.add_step(9, loss=7, epoch=1.5), TypeError)]:
        try:
            call()
        except kind:
            continue
        sys.exit(f"{what} is taken")
for call in (lambda: log.add_scalar("x", 1, 1), lambda: log.add_step(1)):
    try:
        call()
    except ValueError:
        continue
    sys.exit("a closed writer writes")

# Full in the middle of a record: none of it stays, and what follows is read when there is room again.
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with sampan.LogWriter(f"{T}/curves/full") as log:
    log.add_scalar("x", 1, 1)
    events = next(name for name in os.listdir(f"{T}/curves/full") if "tfevents" in name)
    resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(f"{T}/curves/full/{events}") + 10, resource.RLIM_INFINITY))
    try:
        log.add_scalar("x", 2, 2)
        sys.exit("no room, and no error")
    except OSError as e:
        assert e.filename or e.strerror, e
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    log.add_scalar("x", 3, 3)
PY
"$NUMPY_PYTHON" -B "$T/write.py" "$T" || fail "the writer"

"$SAMPAN_BUILD/bin/sampan-train" ui --log_dir "$T/curves" --listen 127.0.0.1:0 2>"$T/ui.log" &
on_exit "kill -9 $!"
until_true 30 grep -q "ready port=" "$T/ui.log" || fail "$(cat "$T/ui.log")"
url=http://127.0.0.1:$(sed -n 's/.*ready port=//p' "$T/ui.log")
curl -sS "$url/runs" >"$T/runs"
expect "runs" "$(field runs.0.run <"$T/runs") $(field runs.1.run <"$T/runs") $(field runs.0.damaged <"$T/runs") $(field runs.1.damaged <"$T/runs")" "full one null null"
expect "histograms" "$(field runs.1.histograms <"$T/runs")" '["weights", "nothing", "large"]'
counts=$(curl -sS "$url/histograms?run=one&tag=large" | "$PYTHON" -c 'import json, sys; print(*(sum(h["counts"]) for h in json.load(sys.stdin)))')
expect "each number is in a bar" "$counts" "3 2 1 2"
curl -sS "$url/scalars?run=one" >"$T/scalars"
expect "the last loss" "$(field train/loss.3.0 <"$T/scalars") $(field train/loss.3.2 <"$T/scalars")" "4 0.25"
field train/loss.4 <"$T/scalars" 2>/dev/null && fail "half of what was refused is there"
expect "no number is none" "$(field train/accuracy.1.2 <"$T/scalars")" null
field input/from_mount <"$T/scalars" >/dev/null || fail "nothing of the input"
curl -sS "$url/scalars?run=full" | field x.1.0 >"$T/full"
expect "after a full disk" "$(cat "$T/full")" 3
curl -sS "$url/histograms?run=one&tag=weights" >"$T/bars"
expect "bars" "$(field 1.step <"$T/bars") $(field 1.edges.0 <"$T/bars") $(field 1.edges.30 <"$T/bars")" "5 0 594"
curl -sS "$url/image?run=one&tag=noise&place=$(curl -sS "$url/images?run=one&tag=noise" | field 1.2)" >"$T/picture.png"
head -c 8 "$T/picture.png" | cmp - <(printf '\x89PNG\r\n\x1a\n') || fail "no picture"

# The lines beside them are those of the charts at the page's head.
expect "lines" "$(wc -l <"$T/curves/one/train.jsonl")" 4
line=$(sed -n 2p "$T/curves/one/train.jsonl")
for part in pass:3 batch:2 step:2 loss:0.5 accuracy:null; do
    expect "${part%:*}" "$(field "${part%:*}" <<<"$line")" "${part#*:}"
done
at_least "samples read through the folder" "$(sed -n 4p "$T/curves/one/train.jsonl" | field from_mount)" 16

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
sampan bench au "$SRC" --model resnet50 --steps 1 >"$T/au.txt"
grep -Eq "^blind +0 .* $SRC" "$T/au.txt" || fail "the table"
refused 2 "unknown model" sampan bench au "$SRC" --model alexnet
refused 2 "no mounted set" sampan bench au "$SRC" --mode clairvoyant --model cosmoflow
refused 2 "no rank=" sampan bench au "$SRC" --sampler torch-distributed,ranks=2,rank=1
refused 3 "nonexistent" sampan bench au "$T/nonexistent"
unmount

#!/usr/bin/env bash
# `sampan-train ui` shows how a training goes while it runs: each figure of train.jsonl once, only what is new when it is asked
# again, and what files of events hold, in a page that a browser draws without asking anybody else; what it cannot show is said.
. "$SAMPAN_TESTS/lib/common.sh"
TRAIN="$SAMPAN_BUILD/bin/sampan-train"
mkdir "$T/curves"
"$TRAIN" ui --log_dir "$T/curves" --listen 127.0.0.1:0 2>"$T/ui.log" &
ui=$!
on_exit "kill -9 $ui"
until_true 30 grep -q "ready port=" "$T/ui.log" || fail "$(cat "$T/ui.log")"
url=http://127.0.0.1:$(sed -n 's/.*ready port=//p' "$T/ui.log")
ask() { # PATH [OPTIONS…] : status in $code, body in $T/body, head in $T/head
    code=$(curl -sS -o "$T/body" -D "$T/head" -w '%{http_code}' --path-as-is "${@:2}" "$url$1")
}
head_of() { # NAME
    sed -n "s/^$1: \(.*\)\r$/\1/ip" "$T/head"
}
train() { # STEPS
    "$TRAIN" --device cpu --data synthetic:640,4 --test_data synthetic:64,4 --model mlp --image 8 --batch_size 16 --num_passes 3 --log_period 5 \
        --save_dir "$T/out" --log_dir "$T/curves" --max_steps "$1" 2>"$T/train.log" || fail "$(cat "$T/train.log")"
}

# Nothing is there yet, then a part, then the rest alone; what they give together is the file.
ask "/points?from=0"
expect "before the training" "$code $(head_of X-Next) $(wc -c <"$T/body")" "200 0 0"
train 60
ask "/points"
cp "$T/body" "$T/all"
expect "lines and where it goes on" "$(wc -l <"$T/all") $(head_of X-Next)" "13 $(wc -c <"$T/curves/train.jsonl")"
at=$(head_of X-Next)
printf '{"pass": 1, "st' >>"$T/curves/train.jsonl" # a line that is being written
ask "/points?from=$at"
expect "half a line" "$(head_of X-From) $(head_of X-Next) $(wc -c <"$T/body")" "$at $at 0"
train 0 # half a line that a full disk left is cut off: it would spoil the first one of this run
! grep -q "{.*{" "$T/curves/train.jsonl" || fail "two lines in one"
ask "/points?from=$at"
cat "$T/body" >>"$T/all"
cmp "$T/all" "$T/curves/train.jsonl" || fail "not the file"
expect "steps" "$(grep -c '"loss"' "$T/all") $(grep -c '"test_loss"' "$T/all")" "24 3"
tail -n 2 "$T/all" | head -n 1 | has '"read_seconds":.*"decode_seconds":.*"from_packs":.*"from_mount":' || fail "nothing of the input: $(tail -n 2 "$T/all")"
ask "/points?from=999999999"
expect "beyond the end: another file" "$code $(head_of X-From)" "200 0"

# A run that begins anew has a file of its own, which may be longer than what was read of the one before.
ask "/points?from=$at"
which=$(head_of X-File)
ask "/points?from=$at&file=$which"
expect "the same file" "$code $(head_of X-From) $(head_of X-File)" "200 $at $which"
cp "$T/curves/train.jsonl" "$T/another"
mv "$T/curves/train.jsonl" "$T/one"
mv "$T/another" "$T/curves/train.jsonl"
ask "/points?from=$at&file=$which"
expect "another file" "$code $(head_of X-From)" "200 0"
cmp "$T/body" "$T/all" || fail "not from its begin"
mv "$T/one" "$T/curves/train.jsonl"

# More than one answer holds: in parts that end with whole lines.
cp "$T/curves/train.jsonl" "$T/short"
while [ "$(wc -c <"$T/curves/train.jsonl")" -lt 2500000 ]; do cat "$T/all" "$T/all" "$T/all" "$T/all" >>"$T/curves/train.jsonl"; done
: >"$T/got"
at=0
for _ in 1 2 3 4; do
    ask "/points?from=$at"
    at=$(head_of X-Next)
    [ "$(wc -c <"$T/body")" -le 1048576 ] || fail "$(wc -c <"$T/body") bytes at once"
    cat "$T/body" >>"$T/got"
done
cmp "$T/got" "$T/curves/train.jsonl" || fail "the parts are not the file"
cp "$T/short" "$T/curves/train.jsonl"

# What the training wrote into files of events.
ask /runs
expect "the runs" "$code $(head_of Content-Type) $(field runs.0.run <"$T/body") $(field runs.0.damaged <"$T/body") $(field runs.0.graph <"$T/body")" \
    "200 application/json; charset=utf-8 . null true"
field runs.0.scalars <"$T/body" | has '"train/loss"' || fail "$(cat "$T/body")"
ask "/scalars?run=."
"$PYTHON" - "$T" <<'PY' || fail "not what train.jsonl says"
import json, sys
told = [json.loads(line) for line in open(sys.argv[1] + "/curves/train.jsonl")]
told = [(p["step"], p["loss"]) for p in told if "loss" in p]
drawn = [(step, value) for step, _, value in json.load(open(sys.argv[1] + "/body"))["train/loss"]]
assert len(drawn) == len(told) and all(a[0] == b[0] and abs(a[1] - b[1]) <= 1e-6 * abs(b[1]) for a, b in zip(drawn, told)), (drawn, told)
PY
ask "/histograms?run=.&tag=___fc_layer_0__.w0"
expect "histograms of each pass" "$code $(field 2.step <"$T/body")" "200 120"
ask "/pr?tag=test/precision_recall"
"$PYTHON" - "$T/body" <<'PY' || fail "no precision and recall: $(head -c 300 "$T/body")"
import json, sys
curves = json.load(open(sys.argv[1]))
assert [c["step"] for c in curves] == [40, 80, 120], curves
for c in curves:
    assert len(c["recall"]) == len(c["precision"]) == 101 and c["recall"][0] == 1 and c["recall"] == sorted(c["recall"])[::-1], c
PY
ask "/graph"
grep -q '\["__fc_layer_0__","fc_layer",\["__data_0__"\]\]' "$T/body" || fail "$(head -c 300 "$T/body")"
"$PYTHON" - "$T/body" <<'PY' || fail "nothing of what layers cost: $(head -c 600 "$T/body")"
import json, sys
graph = json.load(open(sys.argv[1]))
costs = graph["costs"]
assert costs["tag"] == "step 3" and costs["devices"] == ["/device:CPU:0"], costs
assert [n[0] for n in costs["nodes"]] == [n[0] for n in graph["nodes"]], costs
dense = next(n for n in costs["nodes"] if n[0] == "__fc_layer_0__")
assert dense[1] == 0 and 0 < dense[2] < 60e6, dense
outputs = 128 # mlp's first layer
assert dense[3] == 16 * outputs * 4 + 3 * 4 * (8 * 8 * 3 * outputs + outputs), dense
PY
ask "/images?tag=input/first"
place=$(field 0.2 <"$T/body")
ask "/image?tag=input/first&place=$place"
expect "a picture" "$code $(head_of Content-Type) $(head -c 4 "$T/body" | tail -c 3)" "200 image/png PNG"
for path in "/scalars?run=nobody 404" "/histograms?tag=nothing 404" "/image?tag=input/first&place=0-1-0 404" "/runs/ 404"; do
    ask "${path% *}"
    expect "${path% *}" "$code" "${path#* }"
done

# Where a file was written over, who asks is told to ask again.
events=$(echo "$T/curves/"*tfevents*)
cp "$events" "$T/events"
dd if=/dev/zero of="$events" bs="$(wc -c <"$T/events")" count=1 conv=notrunc status=none
ask "/image?tag=input/first&place=$place"
expect "written over" "$code" 503
mv "$T/events" "$events"
ask "/image?tag=input/first&place=$place"
expect "as it was" "$code" 200

ask /
expect "the page" "$code $(head_of Content-Type)" "200 text/html; charset=utf-8"
[[ $(head_of Content-Security-Policy) == "default-src 'none'; "* ]] || fail "$(cat "$T/head")"
for path in "/points?from=x 400" "/points?from=-1 400" "/points?from=99999999999999999999 400" "/points?from=0&file=x 400" "/train.jsonl 404" "/../../etc/passwd 404" "/healthz 200"; do
    ask "${path% *}"
    expect "${path% *}" "$code" "${path#* }"
done
ask /points -X POST -d something
expect "POST" "$code $(head_of Allow)" "405 GET, HEAD"

# A site whose name was made to point here is not let in; names of this machine are, and any where others reach it.
for host in "evil.example 403" "127.0.0.1.evil.example:1 403" "localhost 200" "LOCALHOST:99 200" "[::1]:8081 200" "127.1.2.3 200"; do
    ask /runs -H "Host: ${host% *}"
    expect "asked as ${host% *}" "$code" "${host#* }"
done
"$TRAIN" ui --log_dir "$T/curves" --listen :0 2>"$T/open.log" &
on_exit "kill -9 $!"
until_true 30 grep -q "ready port=" "$T/open.log" || fail "$(cat "$T/open.log")"
expect "on all addresses" "$(curl -sS -o /dev/null -w '%{http_code}' -H "Host: node-3" "http://127.0.0.1:$(sed -n 's/.*ready port=//p' "$T/open.log")/runs")" 200

# All its places are taken by clients who send a byte now and then: they are cut off, and others come in.
"$TRAIN" ui --log_dir "$T/curves" --listen 127.0.0.1:0 --request-timeout 2s 2>"$T/slow.log" &
slow=$!
on_exit "kill -9 $slow"
until_true 30 grep -q "ready port=" "$T/slow.log" || fail "$(cat "$T/slow.log")"
"$PYTHON" "$SAMPAN_TESTS/lib/drip.py" "$(sed -n 's/.*ready port=//p' "$T/slow.log")" 64 || fail "slow clients keep others out"

if command -v chromium >/dev/null; then
    "$PYTHON" - "$SAMPAN_TESTS/lib" "$T" "$url" <<'PY' || fail "the page does not show it"
import os, struct, sys
sys.path.insert(0, sys.argv[1])
from browser import Browser

with Browser(sys.argv[2]) as b:
    b.open(sys.argv[3])
    b.wait("document.querySelectorAll('#charts svg').length === 4")
    assert "step 120" in b.text("#place"), b.text("#place")
    assert "test" in b.text("#loss figcaption"), b.text("#loss figcaption")
    drawn = b.js("document.querySelector('#loss .curve').points.length")
    assert drawn == 24, drawn
    assert b.js("document.querySelector('#loss .second').points.length") == 3
    for row in ("Stall", "Reading", "Decoding", "Straight from packs", "Through the mount"):  # waiting, decoding, where bytes come from
        assert row in b.text("#input"), (row, b.text("#input"))
    with open(sys.argv[2] + "/curves/train.jsonl", "a") as f:  # step 100 is made again, and one more
        f.write('{"time":1.0,"pass":2,"batch":20,"step":100,"loss":0.5,"accuracy":0.5,"stall":0.25,"samples_per_second":7}\n')
    b.wait("document.querySelector('#loss .curve').points.length === 20", 30)
    b.js("for (const part of ['scalars', 'histograms', 'pr', 'images', 'graph']) document.querySelector('#' + part).open = true")
    b.wait("document.querySelector('#scalars [data-tag=\"train/loss\"] polyline')?.points.length === 24")
    b.wait("document.querySelectorAll('#graph .node').length > 3 && document.querySelectorAll('#graph .edge').length > 2")
    assert " ms, " in b.js("document.querySelector('#graph .cost').textContent")
    assert "step 3, /device:CPU:0: " in b.text("#graph .device"), b.text("#graph .device")
    b.wait("document.querySelectorAll('#pr polyline').length === 3 && document.querySelectorAll('#pr .before').length === 2")
    b.js("document.querySelector('#histograms details').open = true")
    b.wait("document.querySelectorAll('#histograms polygon').length === 3")
    b.wait("document.querySelector('#images img')?.naturalWidth === 8")
    def part(number, data):
        return bytes([number << 3 | 2]) + (bytes([len(data)]) if len(data) < 128 else bytes([len(data) & 127 | 128, len(data) >> 7])) + data
    def picture(step):  # as VisualDL writes one
        add(part(1, bytes([1 << 3, step]) + part(2, b"in") + part(5, part(4, b"\x89PNG"))))
    def add(record, file="pictures/vdlrecords.1.log"):
        with open(sys.argv[2] + "/curves/" + file, "ab") as f:
            f.write(struct.pack("<Q", len(record)) + record)
    def varint(n):
        return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)

    for run in "pictures", "twice":
        os.mkdir(sys.argv[2] + "/curves/" + run)
    picture(1)
    picture(2)
    b.wait("!!document.querySelector('#images [data-tag=in]')", 30)
    b.js("document.querySelector('#images [data-tag=in]').open = true")
    b.wait("!!document.querySelector('#images [data-tag=in] input')")
    b.js("const slider = document.querySelector('#images [data-tag=in] input'); slider.value = 0; slider.dispatchEvent(new Event('input'))")
    first = b.js("document.querySelector('#images [data-tag=in] img').src")
    picture(3)
    b.wait("document.querySelector('#images [data-tag=in] input')?.max === '2'", 30)  # drawn anew, and who looks back still does
    assert b.js("document.querySelector('#images [data-tag=in] img').src") == first, first
    wav = b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8) + b"data" + struct.pack("<I", 800) + bytes([128] * 800)
    add(part(1, bytes([1 << 3, 3]) + part(2, b"voice") + part(6, part(4, b"RIFF" + struct.pack("<I", len(wav)) + wav))))
    b.wait("!document.querySelector('#audio').hidden", 30)
    b.js("document.querySelector('#audio').open = true")
    b.wait("!!document.querySelector('#audio audio')")
    b.js("document.querySelector('#audio audio').load(); document.querySelector('#audio audio').preload = 'auto'")
    b.wait("document.querySelector('#audio audio').duration === 0.1", 3)
    for step, value in (1, 1.0), (2, 3e31), (3, float("nan")):
        add(part(1, bytes([1 << 3, step]) + part(2, b"diverged") + bytes([4 << 3 | 5]) + struct.pack("<f", value)))
    b.wait("document.querySelector('#scalars [data-tag=diverged] span')?.innerText === 'not finite'", 30)
    labels = b.js("[...document.querySelectorAll('#scalars [data-tag=diverged] text')].map((t) => t.textContent)")
    assert labels[:3] == ["1.00", "1.50e+31", "3.00e+31"], labels
    def scalar(step, at, value):
        add(part(1, bytes([1 << 3, step]) + part(2, b"twice") + bytes([3 << 3]) + varint(at) + bytes([4 << 3 | 5]) + struct.pack("<f", value)), file)
    for file in "twice/vdlrecords.1.log", "twice/vdlrecords.2.log":  # two writers of one run
        for step in range(1, 6):
            scalar(step, 1700000000000 + 1000 * step, 1.0)
    b.wait("document.querySelector('#scalars [data-tag=twice] polyline')?.points.length === 10", 30)
    xs = b.js("[...document.querySelector('#scalars [data-tag=twice] polyline').points].map((p) => p.x)")
    assert xs == sorted(xs), xs
    b.size(390, 800)
    b.wait("document.querySelector('#loss svg text').getBoundingClientRect().height > 11")  # a phone's owner can read it, too
    assert not b.js("document.documentElement.scrollWidth > innerWidth")
    b.size(1280, 900)
    assert not b.complaints, b.complaints
    assert "step 100" in b.text("#place") and "25.0 %" in b.text("#stall figcaption"), b.text("#stall figcaption")
    with open(sys.argv[2] + "/curves/train.jsonl", "a") as f:
        f.write('{"time":1.0,"pass":2,"batch":21,"step":101,"loss":null,"accuracy":0.5,"stall":0.25,"samples_per_second":7}\n')
    b.wait("document.querySelector('#loss figcaption').innerText.startsWith('Loss not finite')")
    with open(sys.argv[2] + "/curves/train.jsonl", "a") as f:  # a long training, each step of which is told
        for step in range(101, 200001):
            f.write('{"time":1.0,"pass":3,"batch":1,"step":%d,"loss":0.25,"accuracy":1,"stall":0,"samples_per_second":7}\n' % step)
    b.wait("/step 200000,|No answer/.test(document.querySelector('#place').innerText)", 60)
    assert "step 200000" in b.text("#place") and "0.250" in b.text("#loss figcaption"), b.text("#place")
PY
fi

kill -TERM $ui
wait $ui || fail "it does not end well: $(cat "$T/ui.log")"
refused 2 "want --log_dir DIR" "$TRAIN" ui
refused 2 "want --log_dir DIR" "$TRAIN" --ui
refused 3 "--log_dir: $T/nowhere: No such file" "$TRAIN" ui --log_dir "$T/nowhere"
refused 3 "--log_dir: $T/ui.log: Not a directory" "$TRAIN" ui --log_dir "$T/ui.log"
refused 2 "--listen" "$TRAIN" ui --log_dir "$T/curves" --listen nonsense --log-level error
refused 2 '--request-timeout: "0" is too short' "$TRAIN" ui --log_dir "$T/curves" --listen nonsense --request-timeout 0
refused 2 '--request-timeout: "0" is too short' "$TRAIN" predict --checkpoint "$T/out" --listen nonsense --request-timeout 0
refused 2 "--listen.*65535" "$TRAIN" ui --log_dir "$T/curves" --listen 127.0.0.1:99999 --log-level error

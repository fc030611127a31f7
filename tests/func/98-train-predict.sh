#!/usr/bin/env bash
# A trained model answers over HTTP: what it says is what its parameters make of the input, computed here once
# more; replicas agree; requests that make no sense are told where; and what cannot be served is said at the start.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/ratings.sh"
TRAIN="$SAMPAN_BUILD/bin/sampan-train"
"$SAMPAN_BUILD/tools/make-pictures" "$SRC" 3 12 48 40
"$TRAIN" --model mlp --hidden 16 --image 16 --data "$SRC" --batch-size 16 --epochs 3 --seed 7 --device cpu --ema 0.9 \
    --save-dir "$T/saved" --log_level error 2>"$T/why" || fail "$(cat "$T/why")"
make_ratings "$T/ratings"
"$TRAIN" --model recommender --data "$T/ratings" --batch-size 50 --epochs 2 --device cpu --save-dir "$T/movies" \
    --log_level error 2>"$T/why" || fail "$(cat "$T/why")"
"$TRAIN" --model recommender --data synthetic:200,2 --batch_size 50 --device cpu --save_dir "$T/made-up" --log_level error \
    2>"$T/why" || fail "$(cat "$T/why")"
"$TRAIN" --model resnet18 --image 32 --data synthetic:8,3 --batch_size 4 --device cpu --save_dir "$T/net" --log_level error \
    2>"$T/why" || fail "$(cat "$T/why")"

"$PYTHON" - "$TRAIN" "$SRC" "$T" <<'END' || exit 1
import http.client
import json
import math
import os
import pathlib
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import urllib.error
import urllib.request

train, source, top = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])


class Server:
    def __init__(self, checkpoint, *words):
        self.p = subprocess.Popen([train, "predict", "--checkpoint", str(checkpoint), "--listen", "127.0.0.1:0", *words],
                                  stderr=subprocess.PIPE, text=True)
        for line in self.p.stderr:
            ready = re.search(r"ready port=(\d+)", line)
            if ready:
                self.url = f"http://127.0.0.1:{ready[1]}"
                return
        raise SystemExit(f"it ended: {self.p.wait()}")

    def ask(self, path, body=None, kind="application/json"):
        r = urllib.request.Request(self.url + path, data=body, headers={"Content-Type": kind} if body is not None else {})
        try:
            with urllib.request.urlopen(r, timeout=300) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", int(self.url.rsplit(":", 1)[1]), timeout=300)

    def ask_on(self, connection, method, path, body=None):
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        return answer.status

    def head(self, path):
        with socket.create_connection(("127.0.0.1", int(self.url.rsplit(":", 1)[1])), 300) as s:
            s.sendall(f"HEAD {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            head, _, body = b"".join(iter(lambda: s.recv(65536), b"")).partition(b"\r\n\r\n")
        return int(head.split()[1]), body

    def predict(self, body, kind="application/json"):
        status, text = self.ask("/v1/predict", body if isinstance(body, bytes) else json.dumps(body).encode(), kind)
        return status, json.loads(text)

    def end(self):
        self.p.send_signal(signal.SIGTERM)
        self.p.stderr.read()
        assert self.p.wait(60) == 0, self.p.returncode


def mean_of(place):
    """Parameters by name, from the average of the weights, which holds them in the order of state.json."""
    rows = [r for r in json.loads((place / "state.json").read_text())["files"] if r["name"].startswith("___")]
    numbers = [x for x, in struct.iter_unpack("<f", (place / "mean").read_bytes())]
    out, at = {}, 0
    for r in rows:
        n = (r["size"] - 16) // 4
        out[r["name"]] = numbers[at:at + n]
        at += -(-n // 16) * 16  # each begins at a multiple of 64 bytes
    assert at == len(numbers)
    return out


def expected(p, pixels):
    of, by = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    x = [(v / 255 - of[i % 3]) / by[i % 3] for i, v in enumerate(pixels)]
    for i in range(3):
        w, b = p[f"___fc_layer_{i}__.w0"], p[f"___fc_layer_{i}__.wbias"]
        x = [sum(v * w[k * len(b) + j] for k, v in enumerate(x)) + b[j] for j in range(len(b))]
        x = [max(v, 0) for v in x] if i < 2 else x
    e = [math.exp(v - max(x)) for v in x]
    return [v / sum(e) for v in e]


saved = top / "saved"
one, two = Server(saved), Server(saved / "pass-00002")
status, text = one.ask("/v1/model")
about = json.loads(text)
assert status == 200 and about["model"] == "mlp" and about["checkpoint"].endswith("pass-00002"), about
assert about["classes"] == sorted(d.name for d in source.iterdir()), about
assert [one.ask(p)[0] for p in ("/healthz", "/readyz", "/nothing")] == [200, 200, 404]

draw = random.Random(1)
pixels = [[draw.randrange(256) for _ in range(16 * 16 * 3)] for _ in range(40)]  # more than one batch
status, got = one.predict({"instances": pixels})
assert status == 200, got
parameters = mean_of(saved / "pass-00002")
for row, said in zip(pixels, got["predictions"], strict=True):
    want = expected(parameters, row)
    assert max(abs(a - b) for a, b in zip(want, said["scores"], strict=True)) < 1e-4, (want, said)
    assert said["score"] == max(said["scores"]) == said["scores"][said["label"]], said
    assert said["class"] == about["classes"][said["label"]], said
assert two.predict({"instances": pixels})[1] == got, "replicas disagree"

picture = next(source.glob("*/*")).read_bytes()
status, got = one.predict(picture, "image/jpeg")
assert status == 200 and abs(sum(got["predictions"][0]["scores"]) - 1) < 1e-5, got
assert two.predict(picture, "image/jpeg")[1] == got
assert two.predict(picture, "image/png")[1] == got, "its bytes say what it is"
assert two.predict(picture, "Image/JPEG; name=A")[1] == got, "types are the same in either case"
assert two.predict({"instances": pixels[:1]}, "Application/JSON;charset=utf-8")[0] == 200
for path, want in ("/healthz", 200), ("/v1/model", 200), ("/nothing", 404), ("/v1/predict", 405):
    assert two.head(path) == (want, b""), (path, two.head(path))
for method, path, allow in ("GET", "/v1/predict", "POST"), ("PUT", "/v1/model", "GET, HEAD"):
    connection = two.connect()
    connection.request(method, path)
    refused = connection.getresponse()
    assert (refused.status, refused.getheader("Allow")) == (405, allow), (path, refused.headers.items())
    connection.close()

for body, kind, where in (
        ({"instances": [pixels[0], [1, 2]]}, "application/json", "instances[1]"),
        ({"instances": [pixels[0][:-1] + [256]]}, "application/json", "instances[0]"),
        ({"instances": []}, "application/json", "instances"),
        ({"instances": pixels[:1], "extra": 1}, "application/json", "extra"),
        (b"{", "application/json", "request"),
        (picture[:300], "image/jpeg", "picture"),
        (b"", "image/jpeg", "picture"),
        (picture, "text/plain", "Content-Type"),
        (picture, "image/jpegs", "Content-Type")):
    status, got = one.predict(body, kind)
    assert status == 400 and where in got["error"], (where, status, got)
assert one.ask("/v1/predict")[0] == 405
status, text = one.ask("/metrics")
assert "sampan_predict_predictions_total 41\n" in text and "sampan_predict_refused_total 11\n" in text, text
one.end()
two.end()

movies = Server(top / "movies")
known = {"user": 1, "movie": 2, "gender": "F", "age": 19, "job": 1, "title": "Word2 Other2 (1999)", "genres": "Drama|Kind2"}
status, got = movies.predict({"instances": [known, {**known, "title": "Another"}]})
ratings = [p["rating"] for p in got["predictions"]]
assert status == 200 and all(-5.001 < r < 5.001 for r in ratings) and ratings[0] != ratings[1], got
for wrong, where in (({**known, "user": 1 << 30}, "user"), ({**known, "gender": "X"}, "gender"), ({"user": 1}, "movie"), (3, "instances[0]")):
    status, got = movies.predict({"instances": [wrong]})
    assert status == 400 and where in got["error"], (where, got)
assert movies.predict(picture, "image/jpeg")[0] == 400
movies.end()

made_up = Server(top / "made-up")  # it has seen fewer ages, jobs and words than MovieLens has
plain = {"user": 1, "movie": 2, "gender": "F", "age": 19, "job": 1}
status, got = made_up.predict({"instances": [plain]})
assert status == 200 and abs(got["predictions"][0]["rating"]) < 5.001, got
for more, where in (({"age": 120}, "age: row 15 of a table that has 7"), ({"job": 31}, "job: row 31"),
                    ({"title": " ".join(f"word{i}" for i in range(9))}, "title"), ({"genres": "|".join("abcdef")}, "genres")):
    status, got = made_up.predict({"instances": [plain, {**plain, **more}]})
    assert status == 400 and f"instances[1]: {where}" in got["error"], (where, got)
made_up.end()

alone = Server(top / "net", "--threads", "1")
tasks = pathlib.Path(f"/proc/{alone.p.pid}/task")
many = json.dumps({"instances": [[7] * (32 * 32 * 3)] * 200}).encode()
c = alone.connect()  # it has its thread, from whose computing no other one comes
assert alone.ask_on(c, "GET", "/healthz") == 200
before = len(os.listdir(tasks))
assert alone.ask_on(c, "POST", "/v1/predict", many) == 200 and len(os.listdir(tasks)) == before, (before, os.listdir(tasks))

# Those who want to know how it is do not wait for what is computed, whichever connections they have.
asking = [alone.connect() for _ in range(32)]
assert all(alone.ask_on(c, "GET", "/healthz") == 200 for c in asking)
waiting = [threading.Thread(target=lambda: alone.ask_on(alone.connect(), "POST", "/v1/predict", many)) for _ in range(16)]
for t in waiting:
    t.start()
while all(t.is_alive() for t in waiting) and "sampan_predict_requests_total 17\n" not in alone.ask("/metrics")[1]:
    pass
assert all(alone.ask_on(c, "GET", "/healthz") == 200 for c in asking)
assert sum(t.is_alive() for t in waiting) > 12, "health waits for what is computed"
for t in waiting:
    t.join()
for c in asking:
    c.close()
alone.end()

short = Server(top / "net", "--request-timeout", "5s")
drip = [sys.executable, pathlib.Path(os.environ["SAMPAN_TESTS"]) / "lib/drip.py", short.url.rsplit(":", 1)[1], "256"]
subprocess.run(drip, check=True)  # all its places
short.end()
END

refused() { # EXIT WORDS DIR
    local code=0
    timeout 60 "$TRAIN" predict --checkpoint "$3" --listen 127.0.0.1:0 2>"$T/why" || code=$?
    expect "exit code for $3" "$code" "$1"
    grep -q "$2" "$T/why" || fail "no \"$2\" in: $(cat "$T/why")"
}
# The newest is torn: the one before it answers, and the log says so. One that is named is not replaced by another.
answers() { # DIR PLACE WORDS : which checkpoint it serves, and what its log says
    local port
    rm -f "$T/why" # else what the one before said may still be there
    "$TRAIN" predict --checkpoint "$1" --listen 127.0.0.1:0 2>"$T/why" &
    until_true 30 grep -q "ready port=" "$T/why" || fail "it does not serve: $(cat "$T/why")"
    port=$(sed -n 's/.*ready port=//p' "$T/why")
    expect "served of $1" "$(curl -sS "http://127.0.0.1:$port/v1/model" | field checkpoint)" "$2"
    kill -TERM $!
    wait $! || fail "it does not end well: $(cat "$T/why")"
    grep -q "$3" "$T/why" || fail "no \"$3\" in: $(cat "$T/why")"
}
cp -r "$T/saved" "$T/torn"
truncate -s -1 "$T/torn/pass-00002/___fc_layer_0__.w0"
answers "$T/torn" "$T/torn/pass-00001" "warn predict: $T/torn/pass-00002 is passed over: .*fc_layer_0"
rm "$T/torn/pass-00001/___fc_layer_1__.w0"
answers "$T/torn" "$T/torn/pass-00000" "warn predict: $T/torn/pass-00001 is passed over: .*fc_layer_1"
printf x >>"$T/torn/pass-00000/state.json"
refused 1 "pass-00002: .*fc_layer_0" "$T/torn"
cp -r "$T/saved" "$T/unfinished"
rm "$T/unfinished/pass-00002/done"
answers "$T/unfinished" "$T/unfinished/pass-00001" "warn predict: $T/unfinished/pass-00002 is passed over: .*never finished"
rm "$T"/unfinished/*/done
refused 1 "pass-00002: it was never finished" "$T/unfinished"
# One that cannot be read may be whole: no older one answers in its place.
for file in ___fc_layer_0__.w0 state.json; do
    cp -r "$T/saved" "$T/unread-$file"
    rm "$T/unread-$file/pass-00002/$file"
    mkdir "$T/unread-$file/pass-00002/$file"
    refused 1 "$T/unread-$file/pass-00002 cannot be read, though it may be whole .*$file: Is a directory" "$T/unread-$file"
done
refused 3 "no such\|No such" "$T/nothing"
mkdir "$T/empty"
refused 3 "no whole one" "$T/empty"
printf x >>"$T/saved/pass-00002/___fc_layer_0__.w0"
refused 1 "fc_layer_0" "$T/saved/pass-00002"
rm "$T/saved/pass-00002/done"
refused 3 "done" "$T/saved/pass-00002"
code=0
"$TRAIN" predict 2>"$T/why" || code=$?
expect "exit code without --checkpoint" "$code" 2

#!/usr/bin/env bash
# What is told of a job that is done in several parts goes forward to its end: a warmup of a list that is asked for in
# batches, and an rmr of several names.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/s3mem.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
# Paths of a thousand bytes: some four thousand of them are a batch.
"$PYTHON" - "$SRC" <<'PY'
import os, sys
folder = os.path.join(sys.argv[1], *(c * 245 for c in "abcd"))
os.makedirs(folder)
for i in range(9000):
    with open(f"{folder}/{i:04}", "w") as f:
        f.write(str(i))
PY
mount_set "file://$SRC" --connections 1
start_serve
(cd "$SRC" && find . -type f | sort) >"$T/list"
listen() { # FILE
    timeout 600 curl -sN -H "Authorization: Bearer $TOKEN" "http://127.0.0.1:$PORT/events" >"$1" &
    until_true 10 grep -q retry "$1" || fail "no events"
}
forward() { # FILE ID : and to its end
    until_true 40 grep -q "\"id\":\"$2\".*\"state\":\"succeeded\"" "$1" || fail "no event of the end of $2"
    "$PYTHON" - "$1" "$2" <<'PY' || fail "it goes back: $(grep "\"id\":\"$2\"" "$1" | cut -c 1-300)"
import json, sys
jobs = [json.loads(line[6:]) for line in open(sys.argv[1]) if line.startswith("data: ")]
told = [(job["progress"]["percent"], job["progress"]["items"]) for job in jobs if job["id"] == sys.argv[2]]
print(told)
for i in 0, 1:
    assert all(before[i] <= after[i] for before, after in zip(told, told[1:]))
PY
}
expect_code 200 POST /v1/lists --data-binary "@$T/list"
expect "paths" "$(answer paths)" 9000
listen "$T/events"
expect_code 201 POST /v1/jobs -d "{\"id\":\"w\",\"type\":\"warmup\",\"options\":{\"list\":\"$(answer digest)\"}}"
wait_job w succeeded
expect "samples" "$(answer progress.items) $(answer progress.total) $(answer result.samples)" "9000 9000 9000"
forward "$T/events" w
stop_serve

# How much there is to remove is not known before all names were looked for.
start_s3mem
for i in $(seq 10); do store "/_put/p/$i?text=$i" && store "/_put/q/$i?text=$i"; done >"$T/puts"
start_proxy "$STORE"
export AWS_ENDPOINT_URL=$PROXY_URL
start_serve
faults "stall-head key=q"
expect_code 201 POST /v1/jobs -d '{"id":"r","type":"rmr","options":{"uris":["s3://b/p","s3://b/q"],"skipTrash":true}}'
first_is_gone() { ask GET /v1/jobs/r && [ "$(answer progress.items)" = 10 ]; }
until_true 20 first_is_gone || fail "the first name is not removed: $(cat "$T/answer")"
expect "of how many" "$(answer progress.total) $(answer progress.percent)" "0 0.0"
faults ""
wait_job r succeeded
expect "removed" "$(answer progress.items) $(answer progress.total) $(answer result.removed)" "20 20 20"
stop_serve
unmount

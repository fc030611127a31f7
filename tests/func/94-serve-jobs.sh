#!/usr/bin/env bash
# A job posted over HTTP warms the set, once for each id; status, metrics, events and health tell of it.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
make_set --classes 3 --files 10
mount_set "file://$SRC"
start_serve

expect_code 200 GET /healthz
BEARER= expect_code 200 GET /healthz
BEARER= expect_code 200 GET /readyz
BEARER= expect_code 401 GET /v1/status
BEARER=0123456789abcdef-Secret expect_code 401 GET /v1/status
expect_code 200 GET /v1/status
expect "mounts" "$(answer mounts.0.mountpoint)" "$MNT"
expect "samples of the set" "$(answer mounts.0.set.samples)" 30

timeout 600 curl -sN -H "Authorization: Bearer $TOKEN" "http://127.0.0.1:$PORT/events" >"$T/events" &
until_true 10 grep -q retry "$T/events"
body='{"id":"w1","type":"warmup","options":{"paths":["class-000"]}}'
expect_code 201 POST /v1/jobs -d "$body"
wait_job w1 succeeded
expect "items" "$(answer progress.items)" 10
expect "percent" "$(answer progress.percent)" 100.0
expect "failed" "$(answer result.failed)" 0
expect "cached" "$(status cache.samples)" 10
expect_code 200 POST /v1/jobs -d "$body"
expect_code 409 POST /v1/jobs -d '{"id":"w1","type":"warmup"}'
expect_code 201 POST /v1/jobs -d '{"id":"w2","type":"warmup","options":{"verify":true}}'
wait_job w2 succeeded
expect "verified" "$(answer result.verified)" true
expect "cached" "$(status cache.samples)" 30
until_true 10 grep -q '"id":"w2","type":"warmup","state":"succeeded"' "$T/events" ||
    fail "no event of the end of w2"

# Warmups of others are waited for, also those that end while they are asked about.
others() { while [ ! -e "$T/enough" ]; do sampan warmup "$MNT" --quiet || true; done; }
others >"$T/others" 2>&1 &
others=$!
for i in $(seq 20); do
    expect_code 201 POST /v1/jobs -d "{\"id\":\"v$i\",\"type\":\"warmup\"}"
    wait_job "v$i" succeeded
done
touch "$T/enough"
wait "$others"

expect_code 201 POST /v1/jobs -d '{"id":"c","type":"clear","options":{"paths":["class-001"]}}'
wait_job c succeeded
expect "cached after the clear" "$(status cache.samples)" 20
expect_code 201 POST /v1/jobs -d '{"id":"e","type":"evict","options":{"to":0}}'
wait_job e succeeded
expect "cached after the eviction" "$(status cache.samples)" 0
echo new >"$SRC/class-000/new.bin"
expect_code 201 POST /v1/jobs -d '{"id":"s","type":"scan"}'
wait_job s succeeded
expect "added" "$(answer result.added)" 1
expect_code 200 GET '/v1/jobs?type=warmup'
expect "jobs listed" "$(answer jobs.0.id) $(answer jobs.20.id) $(answer jobs.21.id)" "v20 w2 w1"
expect_code 400 GET '/v1/jobs?type=warmups'
grep -q 'type.*warmup, clear' "$T/answer" || fail "the error names no types: $(cat "$T/answer")"
expect_code 400 GET '/v1/jobs?state=done'

expect_code 200 GET /metrics
grep -q "^sampan_mount_up{mount=\"$MNT\"} 1$" "$T/answer" || fail "metrics: $(cat "$T/answer")"
grep -q '^sampan_jobs{state="succeeded"} 25$' "$T/answer" || fail "metrics: $(cat "$T/answer")"
! grep -q "$TOKEN" "$T/log/serve" || fail "the token is in the log"

# Who comes back after a restart with the number of an event of before misses none of the new ones.
events_from() { # ID FILE : until the end of job c2
    timeout 600 curl -sN -H "Authorization: Bearer $TOKEN" -H "Last-Event-ID: $1" "http://127.0.0.1:$PORT/events" >"$2" &
    until_true 10 grep -q '"id":"c2","type":"clear","state":"succeeded"' "$2" || fail "from $1: $(cat "$2")"
}
first=$(sed -n 's/^id: //p' "$T/events" | head -n 1)
stop_serve
start_serve
expect_code 201 POST /v1/jobs -d '{"id":"c2","type":"clear"}'
wait_job c2 succeeded
events_from 0 "$T/events.all"
events_from "$first" "$T/events.after"
expect "events after $first" "$(grep -c '^id:' "$T/events.after")" "$(grep -c '^id:' "$T/events.all")"

# A template tells all that it was submitted with.
expect_code 201 POST /v1/jobs -d '{"id":"t","type":"clear","schedule":"@yearly","timeZone":"Asia/Kolkata","concurrencyPolicy":"Forbid","startingDeadlineSeconds":0}'
expect_code 200 GET /v1/jobs/t
expect "the template" "$(answer schedule) $(answer timeZone) $(answer concurrencyPolicy) $(answer startingDeadlineSeconds)" \
    "@yearly Asia/Kolkata Forbid 0"
stop_serve
unmount

#!/usr/bin/env bash
# A runtime server killed in the middle of a warmup goes on with it at the next start, and what was
# fetched is not fetched again; cancel and pause hold.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
make_set --classes 4 --files 50 --size 20000
start_nginx
mount_set "$HTTP_URL/" --bandwidth 1MB
start_serve
: >"$T/log/nginx.access"
expect_code 201 POST /v1/jobs -d '{"id":"w","type":"warmup"}'
some_came() { [ "$(status cache.samples)" -ge 20 ]; }
until_true 30 some_came
stop_serve KILL
start_serve
wait_job w succeeded
[ "$(answer tries)" -ge 2 ] || fail "it was not resumed: $(cat "$T/answer")"
expect "cached" "$(status cache.samples)" 200
expect "samples fetched twice" "$(grep -o 'GET /class-00./[0-9]*\.bin' "$T/log/nginx.access" | sort | uniq -d | wc -l)" 0

sampan clear "$MNT"
sampan set "$MNT" bandwidth=100KB
expect_code 201 POST /v1/jobs -d '{"id":"p","type":"warmup"}'
few_came() { [ "$(status cache.samples)" -ge 3 ]; }
until_true 30 few_came
expect_code 200 POST /v1/jobs/p/pause
wait_job p paused
expect_code 200 POST /v1/jobs/p/resume
wait_job p running
expect_code 200 DELETE /v1/jobs/p
wait_job p cancelled
expect_code 409 POST /v1/jobs/p/pause
[ "$(status cache.samples)" -lt 200 ] || fail "it was done before it was cancelled: the test is too slow"
stop_serve
unmount

#!/usr/bin/env bash
# A job that is cancelled, or paused, while it still looks for what is to go, removes nothing.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/s3mem.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
start_s3mem
for i in $(seq 30); do store "/_put/p/$i?text=$i"; done >"$T/puts"

mount_set s3://b/p/
start_serve
parked() { [ "$(store /_count/parked)" -gt "$1" ]; }
# Cancels or pauses ID while its first request waits, then lets all through.
stop_while_looking() { # ID METHOD PATH
    local before
    before=$(store /_count/parked)
    store "/_set?park=1&free=0" >"$T/set"
    expect_code 201 POST /v1/jobs -d "$BODY"
    until_true 20 parked "$before" || fail "job $1 asks the store for nothing"
    expect_code 200 "$2" "$3"
    store "/_set?park=0&free=1000000" >"$T/set"
}
BODY='{"id":"uri","type":"rmr","options":{"uris":["s3://b/p"],"skipTrash":true}}'
stop_while_looking uri DELETE /v1/jobs/uri
wait_job uri cancelled
expect "objects after a cancelled rmr" "$(store /_objects)" 30
BODY='{"id":"old","type":"evict","options":{"to":0,"store":true,"skipTrash":true}}'
stop_while_looking old POST /v1/jobs/old/pause
wait_job old paused
expect "objects after a paused evict" "$(store /_objects)" 30
expect_code 200 POST /v1/jobs/old/resume
wait_job old succeeded
expect "removed by the evict that went on" "$(answer result.removed) $(store /_objects)" "30 0"
stop_serve
unmount

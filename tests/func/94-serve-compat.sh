#!/usr/bin/env bash
# The Paddle Operator's controller can talk to the runtime server: its routes, headers and words.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
make_set --classes 2 --files 10
printf '/mnt/imagenet/class-000/000001.bin\nclass-001/000002.bin\r\n\n/mnt/imagenet/class-001/000003.bin' >"$SRC/list"
printf 'class-000/000001.bin\0class-001\n' >"$SRC/list.binary"
printf 'class-000\n' >"$SRC/list.gone"
mount_set "file://$SRC"
start_serve --compat-peers 127.0.0.0/8
BEARER= # it knows no tokens

body='{"paths":["/mnt/imagenet/class-000"],"partitions":1,"Strategy":{"strategyName":"random"},"file":"","threads":2,"note":"s3://AK:SK@bucket/x"}'
expect_code 404 GET /warmupResult/job1
expect_code 400 POST /upload/warmupOptions -d "$body"
expect_code 200 POST /upload/warmupOptions -H 'filename: job1' -d "$body"
expect_code 200 POST /upload/warmupOptions -H 'filename: job1' -d "$body"
succeeded() { ask GET /warmupResult/job1 && [ "$(answer status)" = success ]; }
until_true 30 succeeded
expect "message" "$(answer message)" ""
expect "cached" "$(status cache.samples)" 10
expect_code 200 GET /warmupOptions/job1
expect "posted" "$(answer Strategy.strategyName)" random
! grep -q SK "$T/answer" || fail "a secret came back: $(cat "$T/answer")"

expect_code 200 POST /upload/clearOptions -H 'filename: job1' -d '{"paths":["/cache/0/x"]}'
cleared() { ask GET /clearResult/job1 && [ "$(answer status)" = success ]; }
until_true 30 cleared
expect "cached" "$(status cache.samples)" 0
# what runs or waits ends; what is to come at its time does not run
BEARER=$TOKEN expect_code 201 POST /v1/jobs -d '{"id":"nightly","type":"scan","schedule":"@yearly"}'
expect_code 200 POST '/upload/clearOptions?terminate=true' -H 'filename: terminate'
BEARER=$TOKEN expect_code 200 GET /v1/jobs/nightly
expect "the schedule" "$(answer state)" pending
expect_code 400 POST /upload/warmupOptions -H 'filename: ../../etc/passwd' -d '{}'
expect_code 405 GET /upload/warmupOptions

# a list of paths that lies in the set; one that cannot be read, or is no text, warms nothing
warmup_from() { expect_code "$1" POST /upload/warmupOptions -H "filename: $2" -d "{\"file\":\"/mnt/imagenet/$2\"}"; }
warmup_from 200 list
listed() { ask GET /warmupResult/list && [ "$(answer status)" = success ]; }
until_true 30 listed || fail "$(cat "$T/answer")"
BEARER=$TOKEN expect_code 200 GET /v1/jobs/warmup.list
expect "samples of the list" "$(answer result.samples)" 3
warmup_from 400 list.binary
grep -q 'zero byte' "$T/answer" || fail "$(cat "$T/answer")"
rm "$SRC/list.gone"
warmup_from 409 list.gone
grep -q 'list.gone: Stale file handle' "$T/answer" || fail "$(cat "$T/answer")"
expect_code 404 GET /warmupResult/list.gone
sampan clear "$MNT" >"$T/out"

expect_code 200 GET /cacheStatus/cacheInfo.json
expect "files" "$(answer totalFiles)" 23
expect "size" "$(answer totalSize)" "$(status set.bytes)"
expect "cached" "$(answer cachedSize)" 0
case $(answer diskUsageRate) in *%) ;; *) fail "$(cat "$T/answer")" ;; esac
expect_code 401 GET /v1/status
stop_serve
start_serve --compat-peers 10.0.0.0/8
expect_code 401 GET /cacheStatus/cacheInfo.json
stop_serve
unmount

#!/usr/bin/env bash
# The Paddle Operator's controller can talk to the runtime server: its routes, headers and words.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
make_set --classes 2 --files 10
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
expect_code 200 POST '/upload/clearOptions?terminate=true' -H 'filename: terminate'
expect_code 400 POST /upload/warmupOptions -H 'filename: ../../etc/passwd' -d '{}'
expect_code 405 GET /upload/warmupOptions

expect_code 200 GET /cacheStatus/cacheInfo.json
expect "files" "$(answer totalFiles)" 20
expect "size" "$(answer totalSize)" "$(status set.bytes)"
expect "cached" "$(answer cachedSize)" 0
case $(answer diskUsageRate) in *%) ;; *) fail "$(cat "$T/answer")" ;; esac
expect_code 401 GET /v1/status
stop_serve
start_serve --compat-peers 10.0.0.0/8
expect_code 401 GET /cacheStatus/cacheInfo.json
stop_serve
unmount

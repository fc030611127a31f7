#!/usr/bin/env bash
# What a mount shows is removed from the store that it was mounted from: not from another one, which the environment
# names and which may have a bucket of that name, too.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
make_set --classes 3 --files 4
use_s3
s3 put "$BUCKET" "$SRC" set/
store=$AWS_ENDPOINT_URL
export AWS_ENDPOINT_URL=http://127.0.0.1:1
mount_set "s3://$BUCKET/set" --endpoint "$store"
expect "the store" "$(status endpoint)" "$store"
# who names a store means that one
refused 1 "could not connect" sampan rmr "$MNT/class-001" --yes --endpoint http://127.0.0.1:1
sampan rmr "$MNT/class-001" --yes --json >"$T/out"
expect "removed" "$(field removed.0.removed <"$T/out")" 4
sampan evict "$MNT" --to 0 --store --yes --skip-trash --json >"$T/out"
expect "evicted" "$(field removed <"$T/out")" 8
# jobs of a server, too
AWS_ENDPOINT_URL=$store s3 put "$BUCKET" "$SRC" set/
sampan scan "$MNT"
start_serve
expect_code 201 POST /v1/jobs -d '{"id":"r","type":"rmr","options":{"paths":["class-002"],"skipTrash":true}}'
wait_job r succeeded
expect_code 201 POST /v1/jobs -d '{"id":"e","type":"evict","options":{"store":true,"to":0,"skipTrash":true}}'
wait_job e succeeded
expect "evicted by a job" "$(answer result.removed)" 8
stop_serve
AWS_ENDPOINT_URL=$store s3 keys "$BUCKET" | grep -v '/\.trash/' >"$T/left" || true
expect "left" "$(cat "$T/left")" ""
unmount

# Nor was it named by words of the mount: it has the environment that it was mounted in.
AWS_ENDPOINT_URL=$store s3 put "$BUCKET" "$SRC" set/
AWS_ENDPOINT_URL=$store mount_set "s3://$BUCKET/set" --cache "ssd:$CACHE/anew=1GiB"
expect "the store" "$(status endpoint)" "$store"
sampan rmr "$MNT/class-000" --yes --json >"$T/out"
expect "removed" "$(field removed.0.removed <"$T/out")" 4
unmount

#!/usr/bin/env bash
# A sync job copies between stores; it reaches no local folder but those of the server's mounts.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
make_set --classes 2 --files 10
use_s3
s3_names
s3 put "$BUCKET" "$SRC" "train/"
mount_set "s3://$BUCKET/train"
start_serve
expect_code 201 POST /v1/jobs -d "{\"id\":\"s\",\"type\":\"sync\",\"options\":{\"sources\":[\"s3://$BUCKET/train\"],\"destination\":\"s3://$BUCKET/to-copy\",\"rules\":[{\"exclude\":\"class-001/\"}]}}"
wait_job s succeeded
expect "copied" "$(answer result.copied)" 10
expect_code 201 POST /v1/jobs -d "{\"id\":\"s2\",\"type\":\"sync\",\"options\":{\"sources\":[\"s3://$BUCKET/train\"],\"destination\":\"s3://$BUCKET/to-copy\"}}"
wait_job s2 succeeded
expect "copied and skipped" "$(answer result.copied) $(answer result.skipped)" "10 10"
expect_code 403 POST /v1/jobs -d "{\"id\":\"x\",\"type\":\"sync\",\"options\":{\"sources\":[\"file:///etc\"],\"destination\":\"s3://$BUCKET/to-etc\"}}"
expect_code 403 POST /v1/jobs -d "{\"id\":\"x\",\"type\":\"sync\",\"options\":{\"sources\":[\"file://$MNT/../src\"],\"destination\":\"s3://$BUCKET/to-etc\"}}"
for uri in FILE:///etc file://localhost/etc File://localhost/etc; do # however it is written
    expect_code 403 POST /v1/jobs -d "{\"id\":\"x\",\"type\":\"sync\",\"options\":{\"sources\":[\"$uri\"],\"destination\":\"s3://$BUCKET/to-etc\"}}"
    expect_code 403 POST /v1/jobs -d "{\"id\":\"x\",\"type\":\"sync\",\"options\":{\"sources\":[\"s3://$BUCKET/train\"],\"destination\":\"$uri\"}}"
    expect_code 403 POST /v1/jobs -d "{\"id\":\"x\",\"type\":\"rmr\",\"options\":{\"uris\":[\"$uri/sampan-none\"]}}"
done
expect_code 201 POST /v1/jobs -d "{\"id\":\"m\",\"type\":\"sync\",\"options\":{\"sources\":[\"FILE://localhost$MNT\"],\"destination\":\"s3://$BUCKET/from-mount\"}}"
wait_job m succeeded
expect "copied from the mount" "$(answer result.copied)" 20
expect_code 400 POST /v1/jobs -d "{\"id\":\"x\",\"type\":\"sync\",\"options\":{\"sources\":[],\"destination\":\"s3://$BUCKET/to-etc\"}}"
expect_code 400 POST /v1/jobs -d "{\"id\":\"x\",\"type\":\"sync\",\"options\":{\"sources\":[\"s3://$BUCKET/train\"],\"destination\":\"nowhere\"}}"
expect_code 201 POST /v1/jobs -d "{\"id\":\"n\",\"type\":\"sync\",\"options\":{\"sources\":[\"s3://none/train\"],\"destination\":\"s3://$BUCKET/to-copy\"}}"
wait_job n failed
case $(answer error) in *none*) ;; *) fail "the error names no bucket: $(answer error)" ;; esac
stop_serve
unmount

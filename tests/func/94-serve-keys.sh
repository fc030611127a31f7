#!/usr/bin/env bash
# Keys that come with a job serve that job, and no answer, file or log has them; jobs remove what they
# name; the Paddle Operator's sync and rmr do the same in its own words.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
make_set --classes 3 --files 4
use_s3
s3_names
s3 put "$BUCKET" "$SRC" "train/"
mount_set "s3://$BUCKET/train"
KEY=$AWS_ACCESS_KEY_ID SECRET=$AWS_SECRET_ACCESS_KEY
s3_with_keys() { AWS_ACCESS_KEY_ID=$KEY AWS_SECRET_ACCESS_KEY=$SECRET s3 "$@"; }
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN
export AWS_EC2_METADATA_DISABLED=true
start_serve --compat-peers 127.0.0.0/8
job() { # ID TYPE OPTIONS
    printf '{"id":"%s","type":"%s","options":%s}' "$1" "$2" "$3"
}
ends="\"sources\":[\"s3://$BUCKET/train\"],\"destination\":\"s3://$BUCKET/to-copy\""
keys="\"credentials\":{\"accessKeyId\":\"$KEY\",\"secretAccessKey\":\"$SECRET\"}"
expect_code 201 POST /v1/jobs -d "$(job s0 sync "{$ends}")"
wait_job s0 failed
case $(answer error) in *"no credentials"*) ;; *) fail "$(cat "$T/answer")" ;; esac
expect_code 201 POST /v1/jobs -d "$(job s1 sync "{$ends,$keys}")"
wait_job s1 succeeded
expect "copied" "$(answer result.copied)" 12
expect "keys shown" "$(answer options.credentials)" "***"
expect_code 200 POST /v1/jobs -d "$(job s1 sync "{$ends,$keys}")"
expect_code 409 POST /v1/jobs -d "$(job s1 sync "{$ends}")"
expect_code 200 POST /v1/jobs -d "$(job s1 sync "{$ends,\"credentials\":\"***\"}")"
expect_code 201 POST /v1/jobs -d "$(job s2 sync "{$ends,\"credentials\":\"***\"}")"
wait_job s2 failed
case $(answer error) in *"mask of keys"*) ;; *) fail "$(cat "$T/answer")" ;; esac
expect_code 400 POST /v1/jobs -d "$(job x sync "{$ends,\"credentials\":{\"accessKeyId\":\"a\"}}")"
grep -q 'options.credentials.secretAccessKey' "$T/answer" || fail "$(cat "$T/answer")"
expect_code 400 POST /v1/jobs -d "$(job x sync "{$ends,\"credentials\":\"$SECRET\"}")"
expect_code 400 POST /v1/jobs -d "$(job x sync "{\"sources\":[\"s3://$KEY:$SECRET@$BUCKET/train\"],\"destination\":\"s3://$BUCKET/y\"}")"
grep -q 'options.sources\[0\]' "$T/answer" || fail "$(cat "$T/answer")"
! grep -qF "$SECRET" "$T/answer" || fail "the error has the secret"
expect_code 400 POST /v1/jobs -d "$(job x sync "{\"sources\":[\"s3://$KEY:7/$SECRET@$BUCKET/train\"],\"destination\":\"s3://$BUCKET/y\"}")"
! grep -qF "$SECRET" "$T/answer" || fail "the error has the secret"

# rmr: of the mount's set, into the trash; of a URI, for good
expect_code 400 POST /v1/jobs -d "$(job x rmr '{}')"
expect_code 400 POST /v1/jobs -d "$(job x rmr '{"paths":["./"]}')"
expect_code 400 POST /v1/jobs -d "$(job x rmr '{"paths":["../x"]}')"
expect_code 403 POST /v1/jobs -d "$(job x rmr '{"uris":["file:///etc"]}')"
expect_code 201 POST /v1/jobs -d "$(job r1 rmr "{\"paths\":[\"class-000\"],$keys}")"
wait_job r1 succeeded
expect "removed" "$(answer result.removed) $(answer result.failed)" "4 0"
expect "samples left" "$(status set.samples)" 8
expect "in the trash" "$(s3_with_keys keys "$BUCKET" | grep -c '^train/\.trash/')" 4
expect_code 201 POST /v1/jobs -d "$(job r2 rmr "{\"uris\":[\"s3://$BUCKET/to-copy/class-001\"],\"skipTrash\":true,$keys}")"
wait_job r2 succeeded
expect "left of the copy" "$(s3_with_keys keys "$BUCKET" | grep -c '^to-copy/')" 8
expect_code 201 POST /v1/jobs -d "$(job r3 rmr "{\"paths\":[\"class-000\"],$keys}")"
wait_job r3 failed
case $(answer error) in *class-000*) ;; *) fail "$(cat "$T/answer")" ;; esac
expect_code 201 POST /v1/jobs -d "$(job r4 rmr "{\"uris\":[\"s3://$BUCKET/\"],$keys}")"
wait_job r4 failed

# in the original's words: keys in the address, paths of its pods
BEARER=
success() { ask GET "/$1Result/$2" && [ "$(answer status)" = success ]; }
body="{\"source\":\"s3://$KEY:$SECRET@$BUCKET/to-copy/\",\"destination\":\"file:///mnt/imagenet/more/\",\"threads\":4,\"update\":true,\"exclude\":[\"class-002/\"]}"
expect_code 200 POST /upload/syncOptions -H 'filename: j1' -d "$body"
until_true 30 success sync j1 || { ask GET /syncResult/j1; fail "$(cat "$T/answer")"; }
expect_code 200 GET /syncOptions/j1
! grep -qF "$SECRET" "$T/answer" || fail "the secret came back: $(cat "$T/answer")"
expect "masked" "$(answer source)" "s3://***:***@$BUCKET/to-copy/"
BEARER=$TOKEN expect_code 200 GET /v1/jobs/sync.j1
! grep -qF "$SECRET" "$T/answer" || fail "the secret came back: $(cat "$T/answer")"
expect "copied below the set" "$(s3_with_keys keys "$BUCKET" | grep -c '^train/more/')" 4
expect_code 403 POST /upload/syncOptions -H 'filename: j2' -d '{"source":"s3://x/y","destination":"file:///etc"}'
expect_code 400 POST /upload/rmrOptions -H 'filename: j3' -d '{"paths":["/mnt/imagenet/"]}'
expect_code 400 POST /upload/rmrOptions -H 'filename: j3' -d '{"paths":["/cache"]}'

BEARER=$TOKEN ask GET /v1/jobs
! grep -qF "$SECRET" "$T/answer" || fail "a list of jobs has the secret"
! grep -qF "$SECRET" "$T"/log/serve "$T"/serve/jobs.db* || fail "the secret is in a file"
stop_serve
unmount

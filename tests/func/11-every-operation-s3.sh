#!/usr/bin/env bash
# Every operation of a store on S3, as 11-every-operation-bos.sh has them.
. "$SAMPAN_TESTS/lib/common.sh"
use_s3
"$SAMPAN_BUILD/tools/object-live" "s3://$BUCKET/live" "$AWS_ENDPOINT_URL" >"$T/operations" || fail "$(grep -v '^ok' "$T/operations")"
at_least "operations" "$(grep -c '^ok' "$T/operations")" 25

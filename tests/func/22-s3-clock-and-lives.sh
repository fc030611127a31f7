#!/usr/bin/env bash
# Keys that a service gives out for an hour, on a machine whose clock is two hours ahead of all others: they are not looked for
# anew before each request, as if they had ended long ago.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/servers/start.sh"
need_mount
make_set --classes 4 --files 25
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_EC2_METADATA_DISABLED
: >"$T/keys"
export AWS_REGION=us-east-1
start_s3odd --keys "$T/keys" --life 3600 --skew -7200
AWS_EC2_METADATA_SERVICE_ENDPOINT=$S3_URL mount_set s3://samples/
same_bytes "$SRC" "$MNT"
expect "errors" "$(status reads.errors)" 0
at_most "looks for keys" "$(grep -c ' /latest/meta-data/iam/security-credentials/reader' "$T/log/s3odd")" 3
unmount
nothing_left

#!/usr/bin/env bash
# Keys that services give out, on a machine whose clock is two hours ahead of all others: those that live for an hour are not looked
# for anew before each request, as if they had ended long ago, and a role that is asked for with a signature is given.
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

# A role that is taken with a signature: it is dated as the refusal says.
cat >"$T/config" <<INI
[profile people]
aws_access_key_id = a
aws_secret_access_key = b
[profile reader]
role_arn = arn:aws:iam::123456789012:role/reader
source_profile = people
INI
export AWS_CONFIG_FILE=$T/config AWS_PROFILE=reader
mount_set s3://samples/ --cache "ssd:$T/cache2=1GiB"
cmp "$SRC/class-000/000001.bin" "$MNT/class-000/000001.bin"
at_most "questions for the role" "$(grep -c '^POST / ' "$T/log/s3odd")" 4
unmount
nothing_left

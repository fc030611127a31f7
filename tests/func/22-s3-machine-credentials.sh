#!/usr/bin/env bash
# Credentials of the machine's metadata service (IMDSv2) and of a web identity; renewed before they run out. A
# service in trouble is asked again after pauses that grow, and not for long.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/servers/start.sh"
need_mount
make_set --classes 1 --files 12
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_EC2_METADATA_DISABLED
: >"$T/keys"
export AWS_REGION=us-east-1
start_s3odd --keys "$T/keys" --life 20
AWS_EC2_METADATA_SERVICE_ENDPOINT=$S3_URL mount_set s3://samples/
cat "$MNT/class-000/000001.bin" >"$T/one"
sleep 8
same_bytes "$SRC" "$MNT"
expect "errors" "$(status reads.errors)" 0
grep -q "IMDS[1-9] 200" "$T/log/s3odd" || fail "the credentials were not renewed"
! grep -v "/.sampan/packed " "$T/log/s3odd" | grep " 40[0-9]$" || fail "a request was refused"
unmount
stop_s3odd
start_s3odd --keys "$T/keys"
printf proof >"$T/identity"
AWS_WEB_IDENTITY_TOKEN_FILE=$T/identity AWS_ROLE_ARN=arn:aws:iam::1:role/reader mount_set s3://samples/ --cache "ssd:$T/cache2=1GiB"
same_bytes "$SRC" "$MNT"
grep -q "STS0 200" "$T/log/s3odd" || fail "the web identity was not used"
unmount
printf false >"$T/identity"
AWS_WEB_IDENTITY_TOKEN_FILE=$T/identity AWS_ROLE_ARN=arn:aws:iam::1:role/reader \
    refused 4 "InvalidIdentityToken|identity" sampan mount s3://samples/ "$MNT" --cache "ssd:$T/cache3=1GiB"
nothing_left

start_proxy "$S3_URL"
export AWS_EC2_METADATA_SERVICE_ENDPOINT=$PROXY_URL
faults 'status=500 key=security-credentials'
refused 1 "metadata service: status 500.*tries" sampan mount s3://samples/ "$MNT" --cache "ssd:$T/cache4=1GiB"
at_most "questions to a service in trouble" "$(wc -l <"$T/log/proxy.access")" 20
faults 'status=500 key=security-credentials times=2'
mount_set s3://samples/ --cache "ssd:$T/cache4=1GiB"
unmount
nothing_left

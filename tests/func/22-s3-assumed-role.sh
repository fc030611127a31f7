#!/usr/bin/env bash
# A profile with a role: AssumeRole is asked where the profile says that the store and its services are, with the keys of
# the profile that it names.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
use_s3
make_set --classes 2 --files 5
s3 put "$BUCKET" "$SRC"
start_proxy "$MOTO_URL"
cat >"$T/credentials" <<INI
[people] # whose keys the role trusts
aws_access_key_id = $AWS_ACCESS_KEY_ID
aws_secret_access_key = $AWS_SECRET_ACCESS_KEY
INI
cat >"$T/config" <<INI
[profile "my training"]
role_arn = arn:aws:iam::123456789012:role/reader
source_profile = people
region = us-east-1
endpoint_url = $PROXY_URL
INI
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_REGION AWS_ENDPOINT_URL
export AWS_SHARED_CREDENTIALS_FILE=$T/credentials AWS_CONFIG_FILE=$T/config AWS_PROFILE="my training"
mount_set "s3://$BUCKET/"
same_bytes "$SRC" "$MNT"
grep -q "^POST / .* 200 " "$T/log/proxy.access" || fail "the role was not asked for where the profile says"
unmount
sed -i 's/role.reader/role\/nobody/' "$T/config"
refused 3 "nobody" sampan mount "s3://$BUCKET/" "$MNT" --cache "ssd:$T/cache2=1GiB"
nothing_left

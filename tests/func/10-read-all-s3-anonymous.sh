#!/usr/bin/env bash
# Without credentials and with --no-sign-request, a public bucket is read unsigned.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set
use_open_s3
export AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any
s3 make public
S3_ACL=public-read s3 put public "$SRC"
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
start_proxy "$MOTO_OPEN_URL"
AWS_ENDPOINT_URL=$PROXY_URL mount_set s3://public/ --no-sign-request
same_bytes "$SRC" "$MNT"
unmount

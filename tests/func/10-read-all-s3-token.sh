#!/usr/bin/env bash
# Session tokens: the credentials of an assumed role read the bucket; without the token they do not.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set
use_s3
s3 put "$BUCKET" "$SRC"
export AWS_ACCESS_KEY_ID=$MOTO_STS_KEY AWS_SECRET_ACCESS_KEY=$MOTO_STS_SECRET
refused 4 "credential|token|key" sampan mount "s3://$BUCKET/" "$MNT" --cache "ssd:$CACHE=1GiB"
export AWS_SESSION_TOKEN=$MOTO_STS_TOKEN
mount_set "s3://$BUCKET/"
same_bytes "$SRC" "$MNT"
unmount
nothing_left

#!/usr/bin/env bash
# A bucket that is not there: exit 3, and the bucket is named.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
use_s3
refused 3 "no-such-bucket-here" sampan mount s3://no-such-bucket-here/ "$MNT" --cache "ssd:$CACHE=1GiB"
nothing_left
refused 3 "nowhere" sampan mount "file://$T/nowhere" "$MNT" --cache "ssd:$CACHE=1GiB"
nothing_left
start_nginx
refused 3 "nowhere|404" sampan mount "$HTTP_URL/nowhere/" "$MNT" --cache "ssd:$CACHE=1GiB"
nothing_left

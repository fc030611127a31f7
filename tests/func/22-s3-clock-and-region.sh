#!/usr/bin/env bash
# A clock an hour off and a bucket in another region are found out from the answers; the mount works all the same.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/servers/start.sh"
need_mount
make_set --classes 1 --files 6
export AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b AWS_REGION=us-east-1
number=0
for kind in "--skew 3700" "--skew -3700" "--region eu-west-3 --redirect 301" "--region eu-west-3 --redirect 400"; do
    start_s3odd $kind
    mount_set s3://samples/ --cache "ssd:$T/cache-$((++number))=1GiB"
    same_bytes "$SRC" "$MNT"
    expect "$kind: errors" "$(status reads.errors)" 0
    at_most "$kind: requests refused" "$(grep -c " [34]0[0-9]$" "$T/log/s3odd")" 6
    : >"$T/log/s3odd"
    unmount
    stop_s3odd
done
nothing_left

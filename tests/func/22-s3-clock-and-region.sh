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
    unmount
    # The next mount and doctor find it out anew, and neither takes it for a refusal.
    mount_set s3://samples/ --cache "ssd:$T/cache-$number=1GiB" 2>"$T/said"
    expect "$kind: what the next mount says" "$(cat "$T/said")" ""
    unmount
    sampan doctor s3://samples/ --cache "ssd:$T/cache-$number=1GiB" >"$T/doctor" || true
    grep -q "^ok .*listing and reading: s3://samples" "$T/doctor" || fail "$kind: doctor says: $(cat "$T/doctor")"
    case $kind in --skew*) grep -q "^wrong .*this clock and the store's are apart" "$T/doctor" || fail "$kind: doctor says: $(cat "$T/doctor")" ;; esac
    : >"$T/log/s3odd"
    stop_s3odd
done
nothing_left

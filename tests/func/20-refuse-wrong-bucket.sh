#!/usr/bin/env bash
# A bucket that is not there, to read or to write: exit 3, and the bucket is named in one line.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
use_s3
refused 3 "no-such-bucket-here" sampan mount s3://no-such-bucket-here/ "$MNT" --cache "ssd:$T/c=1GiB"
nothing_left
[ ! -e "$T/c" ] || fail "a cache folder was left behind"
refused 3 "nowhere" sampan mount "file://$T/nowhere" "$MNT" --cache "ssd:$T/c=1GiB"
nothing_left
[ ! -e "$T/c" ] || fail "a cache folder was left behind"
start_nginx
refused 3 "nowhere|404" sampan mount "$HTTP_URL/nowhere/" "$MNT" --cache "ssd:$T/c=1GiB"
nothing_left
[ ! -e "$T/c" ] || fail "a cache folder was left behind"
# As a destination it is found out before anything is sent, and said once.
make_set --classes 1 --files 3
refused 3 "no-such-bucket-here" sampan sync "file://$SRC" s3://no-such-bucket-here/x/

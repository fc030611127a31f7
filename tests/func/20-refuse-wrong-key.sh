#!/usr/bin/env bash
# A wrong secret, and a key nobody has: refused with what to check; nothing is left behind.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
use_s3
mount="sampan mount s3://$BUCKET/ $MNT --cache ssd:$CACHE=1GiB"
AWS_SECRET_ACCESS_KEY=wrong refused 4 "SignatureDoesNotMatch|credential|key" $mount
nothing_left
AWS_ACCESS_KEY_ID=AKIANOBODY refused 4 "InvalidAccessKeyId|credential|key" $mount
nothing_left

#!/usr/bin/env bash
# A bucket whose readers pay: without --requester-pays the refusal is told, with it listing, reads and a copy go through.
# (moto asks nobody to pay: nginx before it does, as S3 would.)
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
use_s3
make_set --classes 2 --files 5
s3 put "$BUCKET" "$SRC"
start_nginx "set \$say \$http_x_amz_request_payer; if (\$say != requester) { return 403 '<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>'; }
    proxy_pass $MOTO_URL; proxy_http_version 1.1; proxy_set_header Host \$http_host;"
export AWS_ENDPOINT_URL=$HTTP_URL

refused 4 "AccessDenied.*--requester-pays" sampan mount "s3://$BUCKET/" "$MNT" --cache "ssd:$CACHE=1GiB"
nothing_left
: >"$T/log/nginx.access"
mount_set "s3://$BUCKET/" --requester-pays
same_bytes "$SRC" "$MNT"
unmount
sampan sync "s3://$BUCKET/" "file://$T/copy" --requester-pays --quiet
same_bytes "$SRC" "$T/copy"
! grep " 403 " "$T/log/nginx.access" || fail "a request did not agree to pay"

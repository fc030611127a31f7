#!/usr/bin/env bash
# --endpoint is the address of one kind of store: where source and destination are of two, each has its own option.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/servers/start.sh"
use_s3
make_set --classes 1 --files 5
s3 put "$BUCKET" "$SRC" from/
unset AWS_ENDPOINT_URL
from=$SRC
SRC=$T/hdfs
mkdir "$SRC"
start_webhdfs
hdfs="webhdfs://127.0.0.1:$HDFS_PORT/to"
refused 2 "--dst-endpoint" sampan sync "s3://$BUCKET/from" "$hdfs" --endpoint "$MOTO_URL"
refused 2 "--dst-endpoint" sampan sync "$hdfs" "s3://$BUCKET/back" --endpoint "$MOTO_URL"
expect "written meanwhile" "$(ls "$SRC")" ""
sampan sync "s3://$BUCKET/from" "$hdfs" --endpoint "$MOTO_URL" --dst-endpoint "http://127.0.0.1:$HDFS_PORT" --quiet
same_bytes "$from" "$T/hdfs/to"
sampan sync "$hdfs" "s3://$BUCKET/back" --dst-endpoint "$MOTO_URL" --quiet
# a folder has no address: it is the other's, whichever that is; and two of a kind share it
sampan sync "file://$from" "s3://$BUCKET/files" --endpoint "$MOTO_URL" --quiet
sampan sync "s3://$BUCKET/files" "s3://$BUCKET/again" --endpoint "$MOTO_URL" --quiet
sampan sync "s3://$BUCKET/again" "file://$T/dst" --endpoint "$MOTO_URL" --quiet
same_bytes "$from" "$T/dst"

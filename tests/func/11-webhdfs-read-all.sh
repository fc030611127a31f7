#!/usr/bin/env bash
# WebHDFS: listed in pages, read through the redirect to the data node, by offset too; webhdfs:// and hdfs://.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/servers/start.sh"
need_mount
make_set --odd
rm -f "$SRC"/odd/bytes-*
"$PYTHON" "$SAMPAN_TESTS/lib/make-set.py" "$SRC" --spec '{"big/nine.bin": 9000000}'
start_webhdfs --page 7
HADOOP_USER_NAME=reader mount_set "webhdfs://127.0.0.1:$HDFS_PORT/"
same_tree "$SRC" "$MNT"
grep -q "^data GET .*op=OPEN&user.name=reader.*offset=4194304&length=4194304" "$T/log/hdfs" || fail "the big file was not read by parts"
unmount
# Old servers know no pages; hdfs:// means the same name node on the port of --webhdfs-port.
stop_webhdfs
start_webhdfs --no-batch
mount_set "hdfs://127.0.0.1/class-000" --webhdfs-port "$HDFS_PORT" --webhdfs-user me --cache "ssd:$T/cache2=1GiB"
same_tree "$SRC/class-000" "$MNT"
unmount
nothing_left

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
# An answer to OPEN does not tell which file its bytes are of: what was replaced since the scan, by one of the same size, is
# told by its status, and no bytes of two files come together.
mkdir "$SRC/late"
head -c 24M /dev/zero | tr '\0' A >"$SRC/late/large"
for name in small gone; do head -c 5000 /dev/zero | tr '\0' A >"$SRC/late/$name"; done
touch -d '2026-01-01' "$SRC"/late/*
mount_set "webhdfs://127.0.0.1:$HDFS_PORT/late" --cache "ssd:$T/cache3=1GiB"
expect "its begin" "$(head -c 3 "$MNT/large")" AAA
for name in large small; do tr A B <"$SRC/late/$name" >"$SRC/late/new" && mv "$SRC/late/new" "$SRC/late/$name"; done
rm "$SRC/late/gone"
for name in large small gone; do
    cat "$MNT/$name" >"$T/got" 2>"$T/why" && fail "$name: all of it came"
    grep -q "Stale file handle" "$T/why" || fail "$name: $(cat "$T/why")"
    [ -z "$(tr -d A <"$T/got")" ] || fail "$name: bytes of another file"
done
unmount
nothing_left

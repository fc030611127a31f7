#!/usr/bin/env bash
# nginx to WebHDFS to a folder, with an object that is sent in pieces; and a packed source list as a set file.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/servers/start.sh"
make_set --classes 2 --files 10 --odd
rm -f "$SRC"/odd/line* "$SRC"/odd/bytes-* "$SRC"/odd/.hidden "$SRC"/odd/*back*
head -c 21000000 /dev/urandom >"$SRC/large"
start_nginx
first=$SRC
SRC="$T/hdfs"
mkdir "$SRC"
start_webhdfs
n=$(find "$first" -type f | wc -l)
sampan sync "$HTTP_URL/" "webhdfs://127.0.0.1:$HDFS_PORT/data" --json >"$T/out" || cat "$T/out"
expect "failed" "$(field failures <"$T/out")" "[]"
expect "copied" "$(field copied <"$T/out")" "$n"
same_bytes "$first" "$T/hdfs/data"
sampan sync "$HTTP_URL/" "webhdfs://127.0.0.1:$HDFS_PORT/data" --json >"$T/out" || cat "$T/out"
expect "copied again" "$(field copied <"$T/out")" 0
sampan sync "webhdfs://127.0.0.1:$HDFS_PORT/data" "file://$T/dst" --check-new --quiet
same_bytes "$first" "$T/dst"
# several sources into one, each in its own folder
printf '{"sources":[{"uri":"%s","at":"a/"},{"uri":"file://%s","at":"b/"}]}' "webhdfs://127.0.0.1:$HDFS_PORT/data" "$first" >"$T/set.json"
sampan sync "$T/set.json" "file://$T/both" --quiet
same_bytes "$first" "$T/both/a"
same_bytes "$first" "$T/both/b"
code=0
sampan sync "file://$first" "file://$T/dst" "file://$T/twice" --json >"$T/out" 2>"$T/err" || code=$?
expect "exit code where two sources have a key" "$code" 1
same_bytes "$first" "$T/twice"

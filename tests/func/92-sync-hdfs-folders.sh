#!/usr/bin/env bash
# Folders that the source does not have go at HDFS as they do elsewhere: when they are empty, the deepest first.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/servers/start.sh"
mkdir -p "$SRC/kept/deep" "$T/hdfs/set/gone/deep/deeper" "$T/hdfs/set/kept/gone" "$T/hdfs/set/empty"
for f in kept/one kept/deep/two; do echo "$f" >"$SRC/$f"; done
for f in gone/x gone/deep/y gone/deep/deeper/z kept/gone/x; do echo "$f" >"$T/hdfs/set/$f"; done
from=$SRC
SRC="$T/hdfs"
start_webhdfs
sampan sync "file://$from" "webhdfs://127.0.0.1:$HDFS_PORT/set" --dirs --delete-dst --json >"$T/out" || fail "$(cat "$T/out")"
expect "deleted" "$(field deleted <"$T/out")" 9
expect "folders" "$(cd "$T/hdfs/set" && find . -type d | LC_ALL=C sort | tr '\n' ' ')" ". ./kept ./kept/deep "
same_bytes "$from" "$T/hdfs/set"
stop_webhdfs

# The delete of a folder whose answer was lost is asked for again: that it is not there then is no failure.
mkdir -p "$T/hdfs/set/gone/deep"
start_webhdfs --gone --lose "$T/lose"
touch "$T/lose"
sampan sync "file://$from" "webhdfs://127.0.0.1:$HDFS_PORT/set" --dirs --delete-dst --json >"$T/out" || fail "$(cat "$T/out")"
[ ! -e "$T/lose" ] || fail "no answer was lost"
expect "deleted" "$(field deleted <"$T/out")" 2
same_bytes "$from" "$T/hdfs/set"

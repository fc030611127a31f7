#!/usr/bin/env bash
# A folder of the destination stays while something in it does, and is not counted as deleted.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/servers/start.sh"
echo one >"$SRC/one"
extras() { # DIR
    mkdir -p "$1/kept/deep/er" "$1/gone/deep" "$1/kept/gone"
    for f in kept/deep/er/x.tmp kept/y gone/deep/z; do echo "$f" >"$1/$f"; done
}
told() { field deleted <"$T/out"; }
left() { (cd "$1" && find . -mindepth 1 | LC_ALL=C sort | tr '\n' ' '); }
stays="./kept ./kept/deep ./kept/deep/er ./kept/deep/er/x.tmp ./one "

mkdir "$T/hdfs"
from=$SRC
SRC=$T/hdfs
start_webhdfs
for to in "file://$T/dst" "webhdfs://127.0.0.1:$HDFS_PORT/dst"; do
    case $to in file:*) dir=$T/dst ;; *) dir=$T/hdfs/dst ;; esac
    extras "$dir"
    sampan sync "file://$from" "$to" --dirs --delete-dst --exclude '*.tmp' --dry --json >"$T/out"
    expect "would be deleted at $to" "$(told)" 5
    sampan sync "file://$from" "$to" --dirs --delete-dst --exclude '*.tmp' --json >"$T/out" || fail "$(cat "$T/out")"
    expect "deleted at $to" "$(told)" 5
    expect "left at $to" "$(left "$dir")" "$stays"
done


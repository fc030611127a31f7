#!/usr/bin/env bash
# A folder of the destination stays while something in it does, and is not counted as deleted; an empty one that a run
# does not look at makes way for an object of its name.
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

# So does one with things in it that no listing shows: no failure, and not counted.
for to in "file://$T/dst" "webhdfs://127.0.0.1:$HDFS_PORT/dst"; do
    case $to in file:*) dir=$T/dst ;; *) dir=$T/hdfs/dst ;; esac
    rm -r "$dir/kept"
    mkdir -p "$dir/bin/.trash" "$dir/half" "$dir/gone"
    echo half >"$dir/half/.sampan-put-1"
    sampan sync "file://$from" "$to" --dirs --delete-dst --json >"$T/out" || fail "$(cat "$T/out")"
    expect "deleted at $to" "$(told)" 1
    expect "left at $to" "$(left "$dir")" "./bin ./bin/.trash ./half ./half/.sampan-put-1 ./one "
done

rm -r "$T/dst"
mkdir -p "$T/dst/one" "$T/dst/two"
sampan sync "file://$from" "file://$T/dst" --quiet
same_bytes "$from" "$T/dst"
echo two >"$from/two"
echo mine >"$T/dst/two/mine"
refused 1 "two: .*is a directory" sampan sync "file://$from" "file://$T/dst"
expect "what is in a folder of that name" "$(cat "$T/dst/two/mine")" mine
rm "$T/dst/two/mine"
mkdir -p "$T/dst/two/deep/er"
sampan sync "file://$from" "file://$T/dst" --quiet || fail "a folder with empty ones in it makes no way"
same_bytes "$from" "$T/dst"
rm "$T/dst/two"
mkdir "$T/dst/two"
refused 1 "two: .*is a directory" sampan sync "file://$from" "file://$T/dst" --dirs

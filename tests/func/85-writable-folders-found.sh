#!/usr/bin/env bash
# Folders that others made, empty ones too, are removed and renamed in the store as those made here are: with stores that
# have folders (a local one, WebHDFS) and with one that has none. A new mount finds what was left, and no more.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
. "$SAMPAN_TESTS/servers/start.sh"
need_mount

tree() { # DIR
    (cd "$1" && find . -mindepth 1 | LC_ALL=C sort | tr '\n' ' ')
}

change() { # SET: $MNT had in it what make_found makes
    local set=$1 seen
    shift
    mount_writable "$set" "$@"
    ls -lR "$MNT" >"$T/ls"
    rmdir "$MNT/gone/below" "$MNT/gone"
    rm -r "$MNT/full"
    chmod 700 "$MNT/changed"
    rmdir "$MNT/changed"
    mv "$MNT/tree" "$MNT/moved-tree"
    mv "$MNT/empty" "$MNT/moved"
    sampan flush "$MNT"
    seen=$(tree "$MNT")
    expect "$set: what is seen" "$seen" "./moved ./moved-tree ./moved-tree/a ./moved-tree/a/b ./moved-tree/a/file "
    unmount
    rm -rf "$CACHE"
    mount_writable "$set" "$@"
    expect "$set: what another mount sees" "$(tree "$MNT")" "$seen"
    unmount
    rm -rf "$CACHE"
}

make_found() { # DIR
    mkdir -p "$1"/gone/below "$1/empty" "$1/tree/a/b" "$1/full/sub" "$1/changed"
    echo 1 >"$1/tree/a/file"
    echo 2 >"$1/full/sub/file"
}

make_found "$SRC"
change "file://$SRC"
expect "in the folder" "$(tree "$SRC")" "./moved ./moved-tree ./moved-tree/a ./moved-tree/a/b ./moved-tree/a/file "

rm -rf "${SRC:?}"/*
make_found "$SRC"
start_webhdfs
change "webhdfs://127.0.0.1:$HDFS_PORT/"
expect "at the name node" "$(tree "$SRC")" "./moved ./moved-tree ./moved-tree/a ./moved-tree/a/b ./moved-tree/a/file "

use_s3
s3 put-bytes "$BUCKET" gone/below/ empty/ tree/a/b/ changed/ </dev/null
echo 1 | s3 put-bytes "$BUCKET" tree/a/file full/sub/file
change "s3://$BUCKET/"
expect "files in the bucket" "$(keys | tr '\n' ' ')" "moved-tree/a/file "
nothing_left

#!/usr/bin/env bash
# WebHDFS says no: a user who may not, a folder that is not there, the name node that waits.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/servers/start.sh"
need_mount
make_set --classes 1 --files 3
start_webhdfs --user alice
mount() { sampan mount "webhdfs://127.0.0.1:$HDFS_PORT/$1" "$MNT" --cache "ssd:$T/c=1GiB" "${@:2}"; }
refused 4 "Permission denied.*HADOOP_USER_NAME" mount "" --webhdfs-user mallory
nothing_left
refused 3 "nowhere" mount nowhere --webhdfs-user alice
nothing_left
[ ! -e "$T/c" ] || fail "a cache folder was left behind"
stop_webhdfs
start_webhdfs --standby
refused 1 "name the active one" mount ""
nothing_left

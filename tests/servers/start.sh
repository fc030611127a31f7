# Sourced after common.sh by scripts that need a server of this folder.
#
#   start_webhdfs [OPTIONS]  a name node and a data node over $SRC: $HDFS_PORT, log $T/log/hdfs; stop_webhdfs
#   start_bos [OPTIONS]      the bucket "samples" over $SRC: $BOS_URL, log $T/log/bos; stop_bos
#   start_s3odd [OPTIONS]    the same bucket as S3, elsewhere than one thinks: $S3_URL, log $T/log/s3odd; stop_s3odd
# OPTIONS are those of webhdfs.py, bos.py and s3odd.py.

start_server() { # NAME SCRIPT ARGS… : sets SERVER_PID and SERVER_PORT
    local name=$1 script=$2
    shift 2
    rm -f "$T/$name.port"
    "$PYTHON" "$SAMPAN_TESTS/servers/$script" --ready "$T/$name.port" "$@" 2>>"$T/log/$name.err" &
    SERVER_PID=$!
    on_exit "kill -9 $SERVER_PID; wait $SERVER_PID"
    until_true 20 test -f "$T/$name.port" || fail "$script does not start: $(cat "$T/log/$name.err")"
    SERVER_PORT=$(cat "$T/$name.port")
}

stop_server() { # PID
    kill -9 "$1"
    wait "$1" 2>/dev/null || true
}

start_webhdfs() {
    start_server hdfs webhdfs.py --root "$SRC" --log "$T/log/hdfs" "$@"
    HDFS_PID=$SERVER_PID HDFS_PORT=$SERVER_PORT
}

stop_webhdfs() {
    stop_server "$HDFS_PID"
}

start_bos() {
    export BCE_ACCESS_KEY_ID=alice BCE_SECRET_ACCESS_KEY=opensesame
    start_server bos bos.py --root "$SRC" --log "$T/log/bos" --bucket samples --key alice --secret opensesame "$@"
    BOS_PID=$SERVER_PID BOS_URL=http://127.0.0.1:$SERVER_PORT
}

stop_bos() {
    stop_server "$BOS_PID"
}

start_s3odd() { # the bucket "samples" over $SRC with its own clock, region and keys: $S3_URL, log $T/log/s3odd
    start_server s3odd s3odd.py --root "$SRC" --log "$T/log/s3odd" --bucket samples "$@"
    S3ODD_PID=$SERVER_PID S3_URL=http://127.0.0.1:$SERVER_PORT
    export AWS_ENDPOINT_URL=$S3_URL
}

stop_s3odd() {
    stop_server "$S3ODD_PID"
}

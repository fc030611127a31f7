# Sourced by `run`: Hadoop's own HDFS, a name node and a data node from its jars (fetched once with Maven).
hdfs_jars=$cache/hdfs-3.4.1
if [ ! -e "$hdfs_jars/made" ] && command -v mvn >/dev/null; then
    echo "fetching Hadoop 3.4.1 (70 MB, once) ..."
    timeout 900 mvn -q -B -f tests/conformance/hdfs-pom.xml dependency:copy-dependencies -DincludeScope=runtime \
        -DoutputDirectory="$hdfs_jars" >"$cache/hdfs.log" 2>&1 && touch "$hdfs_jars/made" || tail -3 "$cache/hdfs.log"
fi

hdfs_set() { # FILE NAME VALUE…
    local file=$1
    shift
    echo "<configuration>" >"$file"
    while [ $# -gt 0 ]; do
        echo "<property><name>$1</name><value>$2</value></property>" >>"$file"
        shift 2
    done
    echo "</configuration>" >>"$file"
}
hdfs_run() { # PART MAIN-CLASS [ARGS…]
    local log="$T/hdfs/$1.log"
    shift
    exec java -Xmx300m --add-opens=java.base/java.lang=ALL-UNNAMED -cp "$T/hdfs/conf:$hdfs_jars/*" "$@" >"$log" 2>&1
}
hdfs_ask() { # METHOD PATH?OPERATION [OPTION OF CURL]
    curl -sf "${@:3}" -X "$1" "http://127.0.0.1:$hdfs_port/webhdfs/v1$2&user.name=${HADOOP_USER_NAME:-}"
}
hdfs_is_up() { hdfs_ask GET "/?op=LISTSTATUS" >/dev/null && curl -sf "http://127.0.0.1:$hdfs_port/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState" | grep -q '"NumLiveDataNodes" : 1'; }
hdfs_data() {
    hdfs_run data org.apache.hadoop.hdfs.server.datanode.DataNode &
    hdfs_data_pid=$!
    children+=("$hdfs_data_pid")
}
hdfs_start() {
    local rpc
    read -r hdfs_port rpc < <(python3 -c 'import socket
a, b = socket.socket(), socket.socket()
a.bind(("127.0.0.1", 0)), b.bind(("127.0.0.1", 0))
print(a.getsockname()[1], b.getsockname()[1])')
    mkdir -p "$T"/hdfs/conf/webapps/{hdfs,datanode} # empty: their pages are in no jar
    hdfs_set "$T/hdfs/conf/core-site.xml" fs.defaultFS "hdfs://127.0.0.1:$rpc" hadoop.tmp.dir "$T/hdfs/state" \
        hadoop.http.staticuser.user nobody
    hdfs_set "$T/hdfs/conf/hdfs-site.xml" dfs.replication 1 dfs.namenode.http-address "127.0.0.1:$hdfs_port" \
        dfs.datanode.address 127.0.0.1:0 dfs.datanode.http.address 127.0.0.1:0 dfs.datanode.ipc.address 127.0.0.1:0 \
        dfs.client.block.write.locateFollowingBlock.initial.delay.ms 20 dfs.datanode.du.reserved 0
    printf 'log4j.rootLogger=WARN,A\nlog4j.appender.A=org.apache.log4j.ConsoleAppender\nlog4j.appender.A.layout=org.apache.log4j.SimpleLayout\n' \
        >"$T/hdfs/conf/log4j.properties"
    export HADOOP_USER_NAME=trainer
    # Who starts it is its superuser.
    (hdfs_run format org.apache.hadoop.hdfs.server.namenode.NameNode -format) || return 1
    hdfs_run name org.apache.hadoop.hdfs.server.namenode.NameNode &
    children+=($!)
    hdfs_data
    for _ in $(seq 300); do hdfs_is_up && return; sleep 0.2; done
    return 1
}

hdfs_part() {
    local uri hdfs_port hdfs_data_pid pid left
    hdfs_start || { tail -3 "$T"/hdfs/*.log && result "HDFS: a name node and a data node" 1; return; }
    uri="hdfs://127.0.0.1" # the port of an hdfs:// address is not that of WebHDFS
    local there=(--webhdfs-port "$hdfs_port")

    mkdir -p "$T/odd/a b/ü%41+c#d?e" "$T/odd/empty"
    cp -r "$T/src/." "$T/odd"
    echo odd >"$T/odd/a b/ü%41+c#d?e/f&g=h;i'\".jpg"
    : >"$T/odd/a b/nothing"
    head -c 40000000 /dev/urandom >"$T/odd/large"
    "$SAMPAN" sync "file://$T/odd" "$uri/set" "${there[@]}" --dirs --quiet &&
        "$SAMPAN" mount "$uri/set" "$T/mnt" "${there[@]}" --cache "ssd:$T/hdfs/cache=1GiB" && diff -r "$T/odd" "$T/mnt"
    result "HDFS: what is copied there reads back equal, odd names and 40 MB among it" $?

    kill "$hdfs_data_pid" && wait "$hdfs_data_pid" 2>/dev/null
    diff -r "$T/odd" "$T/mnt" && "$SAMPAN" umount "$T/mnt"
    result "HDFS: what is cached is read without the data node" $?
    hdfs_data
    # Until it is heard of, the name node sends all to where the former one was.
    for _ in $(seq 600); do hdfs_ask GET "/set/large?op=OPEN&length=1&offset=39999999" -L >/dev/null && break; sleep 0.2; done

    HADOOP_USER_NAME=stranger "$SAMPAN" sync "file://$T/src" "$uri/set" "${there[@]}" --force-update --quiet 2>"$T/err"
    [ $? = 1 ] && grep -q 'Permission denied\|AccessControl' "$T/err" && { "$SAMPAN" mount "$uri/nowhere" "$T/mnt" "${there[@]}" 2>"$T/err"; [ $? = 3 ]; } || { tail -n 3 "$T/err"; false; }
    result "HDFS: who may not write is told so; what is not there is not found" $?

    # Killed at whatever moment, nothing is seen half: old or new, of its full length.
    mkdir -p "$T/new"
    for i in $(seq 40); do head -c 3000000 /dev/urandom >"$T/new/$i"; done
    stored() { hdfs_ask GET "/whole?op=LISTSTATUS" | grep -oE '"pathSuffix":"[0-9]+"' | wc -l; }
    for i in 1 2 3 4 5; do
        "$SAMPAN" sync "file://$T/new" "$uri/whole" "${there[@]}" --quiet &
        pid=$!
        until [ "$(stored)" -ge "$i" ] || ! kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
        sleep "0.$((RANDOM % 7 + 1))"
        kill -9 "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
    done
    sleep 1 # for a data node to close what broke off
    "$SAMPAN" scan "$uri/whole" "${there[@]}" -o "$T/hdfs/catalog" --quiet --json >"$T/scan" &&
        python3 -c 'import json, sys; s = json.load(open(sys.argv[1])); sys.exit(s["bytes"] != s["samples"] * 3000000)' "$T/scan" &&
        "$SAMPAN" sync "file://$T/new" "$uri/whole" "${there[@]}" --quiet && "$SAMPAN" sync "$uri/whole" "file://$T/hdfs/back" "${there[@]}" --quiet &&
        diff -r "$T/new" "$T/hdfs/back"
    result "HDFS: a copy killed five times shows nothing half, and comes to its end" $?

    "$SAMPAN" mount "$uri/out" "$T/mnt" "${there[@]}" --writable --commit background --cache "ssd:$T/hdfs/stage=1GiB" &&
        cp -r "$T/new" "$T/mnt/folder" && echo first >"$T/mnt/log" && echo second >>"$T/mnt/log" && mv "$T/mnt/folder/1" "$T/mnt/folder/2" &&
        kill -9 "$("$SAMPAN" status "$T/mnt" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["pid"])')" &&
        mv "$T/mnt/folder" "$T/mnt/moved" && rm "$T/mnt/moved/3" && "$SAMPAN" flush "$T/mnt" && "$SAMPAN" umount "$T/mnt" &&
        "$SAMPAN" sync "$uri/out" "file://$T/hdfs/out" "${there[@]}" --quiet && mv "$T/new/1" "$T/new/2" && rm "$T/new/3" &&
        diff -r "$T/new" "$T/hdfs/out/moved" && [ "$(cat "$T/hdfs/out/log")" = $'first\nsecond' ]
    result "HDFS: a writable mount whose daemon is killed stores what was written" $?
    left=$(hdfs_ask GET "/out/moved?op=LISTSTATUS" | grep -c 'sampan-put')
    [ "$left" = 0 ]
    result "HDFS: … and leaves nothing else" $?

    "$SAMPAN" rmr "$uri/out/moved" "${there[@]}" --yes --quiet && ! hdfs_ask GET "/out/moved?op=LISTSTATUS" && hdfs_ask GET "/out/log?op=GETFILESTATUS" >/dev/null
    result "HDFS: rmr takes what it is told, and no more" $?
    unset HADOOP_USER_NAME
}
if [ ! -e "$hdfs_jars/made" ]; then
    skipped HDFS "no Maven, or Hadoop's jars could not be fetched"
elif ! command -v java >/dev/null || ! command -v curl >/dev/null; then
    skipped HDFS "it needs Java (11 or later) and curl"
else
    hdfs_part
fi

# Sourced after common.sh by the tests of mounts that can be written.
#
#   mount_writable SET [OPTIONS]        at $MNT, with the cache in $CACHE
#                                       (however full the disk is: below its floor every write is ENOSPC)
#   mount_writable_at N SET [OPTIONS]   one more, at $T/mnt-N, with a cache of its own
#   use_store                           a bucket of the test's own, whose URI is $STORE: S3, or what $OVER says (bos)
#   use_writable_store                  the same behind the proxy
#   stored VERB [ARGS]                  looks into it with the store's own client, past the proxy (tests/lib/s3.py)
#   pending FIELD                       of `status`: pending files
#   work_beside SECONDS CMD…            CMD while the exerciser writes and compares so long; then the store has the same

mount_writable() { # SET [OPTIONS…]
    local set=$1
    shift
    mount_set "$set" --writable --free-space 0 "$@"
}

mount_writable_at() { # N SET [OPTIONS…]
    local n=$1 set=$2
    shift 2
    mkdir -p "$T/mnt-$n"
    on_exit "unmount_quietly '$T/mnt-$n'"
    sampan mount "$set" "$T/mnt-$n" --cache "ssd:$T/cache-$n=1GiB" --writable --free-space 0 "$@"
}

use_store() {
    if [ "${OVER:-s3}" = s3 ]; then
        use_s3
        STORE=s3://$BUCKET
        return
    fi
    "$VENV/bin/python" -c 'import baidubce' 2>/dev/null || skip "Baidu's client is not there (make venv)"
    . "$SAMPAN_TESTS/servers/start.sh"
    start_bos --writable
    export BOS_URL
    BUCKET=samples STORE=bos://samples.${BOS_URL#http://}
}

use_writable_store() {
    use_store
    if [ "${OVER:-s3}" = s3 ]; then
        start_proxy "$MOTO_URL"
        export AWS_ENDPOINT_URL=$PROXY_URL
    else
        start_proxy "$BOS_URL"
        STORE=bos://samples.${PROXY_URL#http://}
    fi
}

stored() { # VERB ARGS…
    local verb=$1
    shift
    if [ "${OVER:-s3}" = s3 ]; then
        s3 "$verb" "$BUCKET" "$@"
    else
        "$VENV/bin/python" "$SAMPAN_TESTS/lib/bos.py" "$verb" "$BUCKET" "$@"
    fi
}

pending() { # FIELD
    status "pending.$1"
}

keys() { # the bucket's keys, folders' markers left out
    stored keys | grep -v '/$' | LC_ALL=C sort || true
}

work_beside() { # SECONDS CMD…
    local seconds=$1 file
    shift
    "$SAMPAN_BUILD/tools/exercise" "$MNT" --seconds "$seconds" --seed "${SEED:-$RANDOM}" >"$T/exercise" 2>&1 &
    local exercise=$!
    on_exit "kill $exercise"
    works() { ls "$MNT"/exercise-? >"$T/ls" 2>&1; }
    until_true 20 works || fail "nobody works here"
    "$@"
    wait $exercise || fail "after $*: $(cat "$T/exercise")"
    file=$(cd "$MNT" && echo exercise-?)
    cp "$MNT/$file" "$T/seen"
    sampan flush "$MNT"
    stored cat "out/$file" | cmp "$T/seen" - || fail "after $*: the store has something else"
    rm "$MNT/$file"
}

# Sourced after common.sh by the tests of mounts that can be written.
#
#   mount_writable SET [OPTIONS]        at $MNT, with the cache in $CACHE
#   mount_writable_at N SET [OPTIONS]   one more, at $T/mnt-N, with a cache of its own
#   use_writable_s3                     a bucket of the test's own behind the proxy: $BUCKET
#   pending FIELD                       of `status`: pending files

mount_writable() { # SET [OPTIONS…]
    local set=$1
    shift
    mount_set "$set" --writable "$@"
}

mount_writable_at() { # N SET [OPTIONS…]
    local n=$1 set=$2
    shift 2
    mkdir -p "$T/mnt-$n"
    on_exit "unmount_quietly '$T/mnt-$n'"
    sampan mount "$set" "$T/mnt-$n" --cache "ssd:$T/cache-$n=1GiB" --writable "$@"
}

use_writable_s3() {
    use_s3
    start_proxy "$MOTO_URL"
    export AWS_ENDPOINT_URL=$PROXY_URL
}

pending() { # FIELD
    status "pending.$1"
}

keys() { # the bucket's keys, folders' markers left out
    s3 keys "$BUCKET" | grep -v '/$' | LC_ALL=C sort || true
}

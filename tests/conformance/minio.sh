# Sourced by `run`: MinIO, built from source through the Go proxy.

. tests/lib/programs.sh
minio=$cache/bin/minio
minio_program "$cache/bin" 2>&1
# Where a bucket keeps versions; one object has more of them than a page of their list.
minio_versions() { # PORT
    local port=$1 file first
    s3() { AWS_ENDPOINT_URL="http://127.0.0.1:$port" .venv/bin/python tests/lib/s3.py "$@"; }
    s3 make kept && s3 versioned kept && s3 put kept "$T/src" "set/" || return 1
    "$SAMPAN" mount "minio://127.0.0.1:$port/kept/set" "$T/mnt" --cache "ssd:$T/cache5=1GiB" || return 1
    first=$("$SAMPAN" status "$T/mnt" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["version"])')
    mkdir "$T/other" && cp -r "$T/src" "$T/other/set"
    find "$T/other" -type f | while read -r file; do echo other >>"$file"; done
    s3 put kept "$T/other"
    file=$(cd "$T/src" && find . -type f -printf '%P\n' | sort | tail -n 1)
    s3 replace kept "set/$file" 120
    "$SAMPAN" scan "$T/mnt" >/dev/null && "$SAMPAN" set "$T/mnt" "version=$first" >/dev/null && same
    set -- $?
    "$SAMPAN" umount "$T/mnt"
    return "$1"
}
# Objects with the sums that clients of today give them, a byte of two of which changes on its way.
minio_sums() { # PORT
    local port=$1 retries
    s3() { AWS_ENDPOINT_URL="http://127.0.0.1:$port" S3_SUMS=1 .venv/bin/python tests/lib/s3.py "$@"; }
    s3 make summed && s3 put summed "$T/src" || return 1
    printf 'flip key=/class-000/000001 times=1\nflip key=/class-003/000007 times=1\n' >"$T/proxy.rules"
    python3 tests/servers/proxy.py --to "127.0.0.1:$port" --rules "$T/proxy.rules" --log "$T/proxy.log" --ready "$T/proxy.port" &
    children+=($!)
    for _ in $(seq 200); do [ -e "$T/proxy.port" ] && break; sleep 0.1; done
    "$SAMPAN" mount "minio://127.0.0.1:$(cat "$T/proxy.port")/summed/" "$T/mnt" --cache "ssd:$T/cache6=1GiB" || return 1
    same
    set -- $?
    retries=$("$SAMPAN" status "$T/mnt" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["fetch"]["retries"])')
    "$SAMPAN" umount "$T/mnt"
    [ "$1" = 0 ] && [ "$retries" = 2 ]
}
minio_part() {
    local port
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    export MINIO_ROOT_USER=conformance MINIO_ROOT_PASSWORD=conformance-secret
    "$minio" server --quiet --address "127.0.0.1:$port" "$T/data" >"$T/minio.log" 2>&1 &
    children+=($!)
    for _ in $(seq 200); do curl -s -o "$T/up" "http://127.0.0.1:$port/minio/health/ready" && break; sleep 0.1; done
    export AWS_ACCESS_KEY_ID=$MINIO_ROOT_USER AWS_SECRET_ACCESS_KEY=$MINIO_ROOT_PASSWORD AWS_REGION=us-east-1
    AWS_ENDPOINT_URL="http://127.0.0.1:$port" .venv/bin/python tests/lib/s3.py make samples
    AWS_ENDPOINT_URL="http://127.0.0.1:$port" .venv/bin/python tests/lib/s3.py put samples "$T/src" "set/"
    "$SAMPAN" mount "minio://127.0.0.1:$port/samples/set" "$T/mnt" --cache "ssd:$T/cache=1GiB" && same
    result "MinIO: a bucket reads back equal" $?
    "$SAMPAN" umount "$T/mnt"
    minio_versions "$port"
    result "MinIO: a version whose objects were all replaced reads back equal" $?
    minio_sums "$port"
    result "MinIO: bytes that change on their way are told by its sums" $?
    AWS_SECRET_ACCESS_KEY=wrong-secret "$SAMPAN" mount "minio://127.0.0.1:$port/samples/set" "$T/mnt" --cache "ssd:$T/cache2=1GiB" 2>"$T/err"
    [ $? = 4 ]
    result "MinIO: a wrong secret is refused" $?
}
if [ -x "$minio" ]; then minio_part; else skipped MinIO "no Go compiler, or the build did not work"; fi

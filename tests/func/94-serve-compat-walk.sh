#!/usr/bin/env bash
# Every route of the Paddle Operator's runtime server, called as its controller calls it (its header, its JSON, its
# client's name): each type of job from "not known" to its result, options in both spellings, the same name again, who
# is let in with which token, secrets masked, results that outlive a restart.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
make_set --classes 2 --files 6
use_s3
s3_names
s3 put "$BUCKET" "$SRC" "train/"
s3 put "$BUCKET" "$SRC" "other/"
export AWS_EC2_METADATA_DISABLED=true
mount_set "s3://$BUCKET/train"
KEY=$AWS_ACCESS_KEY_ID SECRET=$AWS_SECRET_ACCESS_KEY
start_serve --compat-peers 127.0.0.1/32,10.0.0.0/8
BEARER=

as_controller() { # CODE METHOD PATH [CURL ARGS…]
    expect_code "$@" -H 'User-Agent: Go-http-client/1.1' -H 'Accept-Encoding: gzip'
}
posted() { # TYPE NAME BODY
    as_controller 200 POST "/upload/$1Options" -H "filename: $2" -H 'Content-Type: application/json' -d "$3"
}
result() { # TYPE NAME WANT
    is() { ask GET "/$1Result/$2" && [ "$CODE" = 200 ] && [ "$(answer status)" = "$3" ]; }
    until_true 30 is "$@" || fail "$1 $2: want $3: $CODE $(cat "$T/answer")"
    [ "$(tr -d '\n ' <"$T/answer" | sed 's/"message":".*"/"message":""/')" = "{\"status\":\"$3\",\"message\":\"\"}" ] ||
        fail "$1 $2: a controller reads status and message: $(cat "$T/answer")"
}
sync_body() { # FIELDS
    printf '{"source":"s3://%s:%s@%s/other/","destination":"file:///mnt/imagenet/copy/",%s}' "$KEY" "$SECRET" "$BUCKET" "$1"
}
declare -A BODY=(
    [sync]=$(sync_body '"threads":2,"update":true,"httpPort":6070,"manager":"","worker":""')
    [warmup]='{"paths":["/mnt/imagenet"],"partitions":1,"Strategy":{"strategyName":"sequence"},"file":"","threads":4}'
    [clear]='{"paths":["/cache/dev-shm-imagenet"]}'
    [rmr]='{"paths":["/mnt/imagenet/class-001"]}')

# From "not known" to the result, each type.
for type in sync warmup clear rmr; do
    as_controller 404 GET "/${type}Options/uuid-1"
    as_controller 404 GET "/${type}Result/uuid-1"
    as_controller 405 GET "/upload/${type}Options"
    as_controller 405 PUT "/upload/${type}Options" -H 'filename: uuid-1' -d "${BODY[$type]}"
    as_controller 405 POST "/${type}Result/uuid-1"
    as_controller 400 POST "/upload/${type}Options" -d "${BODY[$type]}"
    as_controller 400 POST "/upload/${type}Options" -H 'filename: uuid-1' -d '{"paths":'
    as_controller 400 POST "/upload/${type}Options" -H 'filename: a/../b' -d "${BODY[$type]}"
    as_controller 404 GET "/${type}Result/uuid-1"
    posted $type uuid-1 "${BODY[$type]}"
    posted $type uuid-1 "${BODY[$type]}" # it asks again until it knows
    result $type uuid-1 success
    as_controller 200 GET "/${type}Options/uuid-1"
    ! grep -qF "$SECRET" "$T/answer" || fail "$type: the secret came back: $(cat "$T/answer")"
    as_controller 409 POST "/upload/${type}Options" -H 'filename: uuid-1' -d '{"paths":["/mnt/imagenet/class-000"],"source":"s3://b/x","destination":"s3://b/y"}'
    case $type in
    sync) expect "copied" "$(s3 keys "$BUCKET" | grep -c '^train/copy/')" 12 ;;
    warmup) expect "cached" "$(status cache.samples)" 12 ;;
    clear) expect "cached" "$(status cache.samples)" 0 ;;
    rmr) expect "left" "$(s3 keys "$BUCKET" | grep -c '^train/class-00')" 6 ;;
    esac
done
as_controller 404 POST /upload/scanOptions -H 'filename: uuid-1' -d '{}'

# Flags with dashes and without, one pattern or several: the same job.
n=0
for flags in '"deleteDst":true,"forceUpdate":true,"exclude":"class-001/"' '"delete-dst":true,"force-update":true,"exclude":["class-001/"]' \
    '"deleteDst":true,"forceUpdate":true,"bwLimit":800,"exclude":["class-001/"]' '"delete-dst":true,"force-update":true,"bwlimit":800,"exclude":"class-001/"'; do
    n=$((n + 1))
    posted sync "flags-$n" "$(sync_body "$flags")"
    result sync "flags-$n" success
    BEARER=$TOKEN expect_code 200 GET "/v1/jobs/sync.flags-$n"
    expect "$flags" "$(answer options.deleteDst) $(answer options.forceUpdate) $(answer options.rules.0.exclude) $(answer result.copied)" \
        "true true class-001/ 6"
    [ "$n" -lt 3 ] || expect "$flags: bytes a second" "$(answer options.bandwidth)" 100000000
done
posted warmup flat '{"paths":["/mnt/imagenet/class-000"],"partitions":1,"strategyName":"random","threads":1}'
result warmup flat success
expect "cached" "$(status cache.samples)" 6
posted sync dry "$(sync_body '"dry":true,"start":"other/class-001","end":"other/class-002"')"
result sync dry success

# A failure is told with its cause and without its secret.
posted sync wrong "{\"source\":\"s3://$KEY:$SECRET@no-such-bucket-here/x/\",\"destination\":\"file:///mnt/imagenet/x/\"}"
failed() { ask GET /syncResult/wrong && [ "$(answer status)" = fail ]; }
until_true 30 failed || fail "$(cat "$T/answer")"
case $(answer message) in *no-such-bucket-here*) ;; *) fail "the message names no cause: $(cat "$T/answer")" ;; esac
! grep -qF "$SECRET" "$T/answer" || fail "the secret came back: $(cat "$T/answer")"

# What runs is terminated, and only then; the controller's next command begins.
sampan clear "$MNT" >"$T/out"
sampan set "$MNT" bandwidth=1KB
posted warmup long '{"paths":["/mnt/imagenet"]}'
until_true 20 eval 'ask GET /warmupResult/long; [ "$CODE" = 200 ]'
expect "while it runs" "$(answer status)" running
as_controller 400 POST '/upload/clearOptions?terminate=perhaps' -H 'filename: terminate'
as_controller 200 POST '/upload/clearOptions?terminate=true' -H 'filename: terminate'
terminated() { ask GET /warmupResult/long && [ "$(answer status)" = fail ]; }
until_true 30 terminated || fail "$(cat "$T/answer")"
expect "why" "$(answer message)" terminated
sampan set "$MNT" bandwidth=0

# Sizes: texts, all of them, and no other field.
as_controller 200 GET /cacheStatus/cacheInfo.json
"$PYTHON" - "$T/answer" <<'PY' || fail "cacheInfo.json: $(cat "$T/answer")"
import json, re, sys
info = json.load(open(sys.argv[1]))
sizes = {"totalSize", "totalFiles", "cachedSize", "diskSize", "diskUsed", "diskAvail"}
assert set(info) == sizes | {"diskUsageRate", "errorMassage"}, info
assert all(re.fullmatch(r"\d+", info[k]) for k in sizes), info
assert re.fullmatch(r"\d+%", info["diskUsageRate"]) and info["errorMassage"] == "", info
PY

# Who is let in: admitted addresses without a token, everybody with the right one, nobody else; and compat routes alone.
as_controller 401 GET /v1/jobs
as_controller 401 POST /v1/jobs -d '{"id":"x","type":"scan"}'
stop_serve
routes=("GET /cacheStatus/cacheInfo.json")
for type in sync warmup clear rmr; do routes+=("GET /${type}Options/uuid-1" "GET /${type}Result/uuid-1" "POST /upload/${type}Options"); done
for peers in '' '--compat-peers 10.0.0.0/8'; do
    # shellcheck disable=SC2086
    start_serve $peers
    for route in "${routes[@]}"; do
        # shellcheck disable=SC2086
        BEARER= as_controller 401 $route -H 'filename: x' -H 'X-Forwarded-For: 10.0.0.1'
        # shellcheck disable=SC2086
        BEARER=${TOKEN}x as_controller 401 $route -H 'filename: x'
    done
    for type in sync warmup clear rmr; do
        BEARER=$TOKEN as_controller 200 GET "/${type}Result/uuid-1"
        expect "$type, after a restart" "$(answer status)" success
        BEARER=$TOKEN as_controller 200 GET "/${type}Options/uuid-1"
    done
    BEARER=$TOKEN as_controller 200 GET /cacheStatus/cacheInfo.json
    stop_serve
done
! grep -qF "$SECRET" "$T"/log/serve "$T"/serve/jobs.db* || fail "the secret is in a file"
unmount

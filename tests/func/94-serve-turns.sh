#!/usr/bin/env bash
# Jobs of one server that write to or remove from the same place take turns: shares of a sync with all but one another, what
# is deleted at a source, and a mount's folder however it is named. The others go on.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
echo one >"$SRC/one"
use_s3
s3 put "$BUCKET" "$SRC" from/
start_proxy "$MOTO_URL"
mount_set "file://$SRC"
start_serve
faults "stall-head"
post() { expect_code 201 POST /v1/jobs -d "$1"; }
sync() { # ID TO OPTIONS
    post "{\"id\":\"$1\",\"type\":\"sync\",\"options\":{\"sources\":[\"s3://$BUCKET/from\"],\"destination\":\"$2\",\"endpoint\":\"$PROXY_URL\"$3}}"
}
states() { for id in "$@"; do job_state "$id"; done | xargs; }
turns() { # FIRST OTHERS… -- SECOND… : FIRST runs beside OTHERS, SECOND wait for it
    local id others=()
    while [ "$1" != -- ]; do
        wait_job "$1" running
        others+=("$1")
        shift
    done
    shift
    sync "last-$1" "s3://$BUCKET/none-$1" ""
    wait_job "last-$1" running # and so those before it have been looked at
    expect "while ${others[*]} run: $*" "$(states "$@")" "$(for id in "$@"; do echo pending; done | xargs)"
    for id in "$@" "${others[@]}" "last-$1"; do # those that wait first, or they would begin
        expect_code 200 DELETE "/v1/jobs/$id"
        wait_job "$id" cancelled
    done
}

sync share-0 "s3://$BUCKET/to/" ',"share":"0/2"'
sync share-1 "s3://$BUCKET/to" ',"share":"1/2"'
sync same-share "s3://$BUCKET/to" ',"share":"0/2"'
sync whole "s3://$BUCKET/to" ""
post "{\"id\":\"rmr\",\"type\":\"rmr\",\"options\":{\"uris\":[\"s3://$BUCKET/to\"],\"endpoint\":\"$PROXY_URL\"}}"
turns share-0 share-1 -- same-share whole rmr

sync moves "s3://$BUCKET/moved" ',"deleteSrc":true'
post "{\"id\":\"source\",\"type\":\"rmr\",\"options\":{\"uris\":[\"s3://$BUCKET/from\"],\"endpoint\":\"$PROXY_URL\"}}"
turns moves -- source

sync mount "file://$MNT/folder" ""
post '{"id":"clear","type":"clear","options":{}}'
post '{"id":"path","type":"clear","options":{"paths":["folder"]}}'
turns mount -- clear path
faults
stop_serve
unmount

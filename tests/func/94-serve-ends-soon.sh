#!/usr/bin/env bash
# An rmr whose store does not answer ends when it is cancelled, while it looks for what would go too; a server that is told
# to end twice waits for nothing.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/s3mem.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
start_s3mem
store "/_put/p/x?text=1" >"$T/put"
start_proxy "$STORE"
export AWS_ENDPOINT_URL=$PROXY_URL
start_serve_without_mount() {
    : >"$T/log/serve" # what the one before said is not this one's
    "$S" serve --listen 127.0.0.1:0 --state "$T/serve" --token-file "$T/token" >>"$T/log/serve" 2>&1 &
    serve_pid=$!
    on_exit "stop_serve KILL"
    until_true 20 grep -q 'sampan serve: listening on port' "$T/log/serve" || fail "serve does not start: $(cat "$T/log/serve")"
    PORT=$(sed -n 's/.*sampan serve: listening on port \([0-9]*\).*/\1/p' "$T/log/serve")
}
asked() { grep -q "^GET .*prefix=p" "$T/log/proxy.access"; }
begin() { # ID
    : >"$T/log/proxy.access"
    expect_code 201 POST /v1/jobs -d "{\"id\":\"$1\",\"type\":\"rmr\",\"options\":{\"uris\":[\"s3://b/p/\"],\"skipTrash\":true}}"
    until_true 20 asked || fail "nothing is listed"
}

start_serve_without_mount
faults "stall-head"
begin looking
expect_code 200 DELETE /v1/jobs/looking
# The store would be waited for a minute and more: until_true allows for less than what it asks for, ten times.
until_true 4 eval '[ "$(job_state looking)" = cancelled ]' || fail "it waits for the store: $(cat "$T/answer")"
expect "removed" "$(answer result.removed) $(answer result.failed)" "0 0"

begin ending
kill -TERM "$serve_pid"
until_true 20 grep -q "signal 15: ending" "$T/log/sampan.log" || fail "it does not end"
kill -TERM "$serve_pid"
code=0
wait "$serve_pid" || code=$?
expect "exit code of one that is told twice" "$code" 143
faults
start_serve_without_mount
wait_job ending succeeded
expect "removed" "$(answer result.removed)" 1
stop_serve

#!/usr/bin/env bash
# A warmup over a slow line that is paused or cancelled, and a mount that ends, take back what is on its way: the store
# sees the connections closed, no byte more comes, nothing is held; whoever else waits for a sample gets it.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
SIZE=150000 # more than a minute each, until the line is fast
mkfifo "$T/stdin"
"$PYTHON" "$SAMPAN_TESTS/servers/faultsrv.py" <"$T/stdin" >"$T/log/store" &
store=$!
exec 9>"$T/stdin"
on_exit "exec 9>&-; wait $store"
until_true 20 grep -q listening "$T/log/store" || fail "the store does not start"
URL=http://127.0.0.1:$(sed 's/.* //' "$T/log/store")
store() { curl -fsS --max-time 300 "$@"; }
head -c "$SIZE" /dev/urandom >"$T/sample"
store -o "$T/put" -H Expect: -T "$T/sample" "$URL/b/slow=2000/[10-69]"

mount_set "minio://${URL#http://}/b/" --no-sign-request --no-hedge
start_serve
before=$(store "$URL/_open")
many_fly() { [ "$(status fetch.in_flight)" -ge 20 ]; }
flying() { [ "$(status fetch.in_flight)" = "$1" ] && [ "$(store "$URL/_open")" -le "$((before + $1))" ]; }
waits() { [ "$(status in_hand)" -ge 1 ]; }
empty() { [ "$(status memory.pool_used)" = 0 ]; }
begin() { # ID
    expect_code 201 POST /v1/jobs -d "{\"id\":\"$1\",\"type\":\"warmup\"}"
    until_true 30 many_fly || fail "only $(status fetch.in_flight) requests are under way"
}

begin cancelled
cat "$MNT/slow=2000/10" >"$T/read" 2>"$T/read.err" &
reader=$!
until_true 10 waits || fail "the reader does not wait"
expect_code 200 DELETE /v1/jobs/cancelled
wait_job cancelled cancelled
until_true 20 flying 1 || fail "under way: $(status fetch.in_flight); open: $(store "$URL/_open"), $before before"
bytes=$(status fetch.bytes)
kill -0 "$reader" || fail "the reader has ended already"
store "$URL/_fast"
wait "$reader" || fail "the reader failed: $(cat "$T/read.err")"
cmp "$T/sample" "$T/read" || fail "the reader got other bytes"
at_most "bytes after the cancel" "$(($(status fetch.bytes) - bytes))" "$SIZE"
until_true 20 empty || fail "held: $(status memory.pool_used)"
expect "failures" "$(status fetch.failures) $(status reads.errors) $(status warmup.failed)" "0 0 0"
expect "the warmup" "$(status warmup.state)" cancelled

# The command, interrupted: it ends, and so does the warmup, so that another one may begin.
store "$URL/_slow"
"$S" warmup "$MNT" --quiet 2>"$T/warmup.err" &
command=$!
until_true 30 many_fly || fail "only $(status fetch.in_flight) requests are under way"
kill -INT "$command"
code=0
wait "$command" || code=$?
expect "exit code of the interrupted warmup" "$code" 130
grep -q "told to stop" "$T/warmup.err" || fail "it does not say why it ended: $(cat "$T/warmup.err")"
until_true 20 flying 0 || fail "under way: $(status fetch.in_flight); open: $(store "$URL/_open"), $before before"
until_true 20 empty || fail "held: $(status memory.pool_used)"

begin paused
expect_code 200 POST /v1/jobs/paused/pause
wait_job paused paused
until_true 20 flying 0 || fail "under way: $(status fetch.in_flight); open: $(store "$URL/_open"), $before before"
until_true 20 empty || fail "held: $(status memory.pool_used)"
expect_code 200 POST /v1/jobs/paused/resume
until_true 30 many_fly || fail "it does not go on"
sampan umount "$MNT"
closed() { [ "$(store "$URL/_open")" = 0 ]; }
until_true 20 closed || fail "open after the end: $(store "$URL/_open")"
stop_serve
nothing_left

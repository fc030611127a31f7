#!/usr/bin/env bash
# Two runs at once copy the same long object: the second takes the upload of the first for one that was left behind, and
# goes on with it or aborts it. The first begins anew, and both end well.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/s3mem.sh"
start_s3mem
head -c 17000000 /dev/urandom >"$SRC/long"
start_proxy "$STORE"
echo "latency=5s key=partNumber=2" >"$T/proxy.rules"
AWS_ENDPOINT_URL=$PROXY_URL sampan sync "file://$SRC" s3://b/out --json --quiet >"$T/slow" 2>&1 &
slow=$!
on_exit "kill -9 $slow"
others_there() { [ "$(grep -c 'partNumber=' "$T/log/proxy.access")" -ge 2 ]; }
until_true 60 others_there || fail "the parts are not sent: $(cat "$T/log/proxy.access")"
sampan sync "file://$SRC" s3://b/out --json --quiet >"$T/fast" || fail "$(cat "$T/fast")"
wait $slow || fail "the one whose upload was ended: $(cat "$T/slow")"
expect "copied by it" "$(field copied <"$T/slow")" 1
expect "uploads left behind" "$(store /_uploads)" 0
store /b/out/long | cmp - "$SRC/long" || fail "the store has something else"

#!/usr/bin/env bash
# Two runs at once copy the same long object: the second takes the upload of the first for one that was left behind, and
# goes on with it or aborts it. The first begins anew, and both end well.
. "$SAMPAN_TESTS/lib/common.sh"
mkfifo "$T/held"
exec 9<>"$T/held"
"$PYTHON" "$SAMPAN_TESTS/servers/s3mem.py" >"$T/server" <"$T/held" &
on_exit "kill -9 $!; wait $!"
listens() { grep -q listening "$T/server"; }
until_true 20 listens || fail "the server does not listen"
server=http://127.0.0.1:$(grep -o '[0-9]*$' "$T/server")
export AWS_ACCESS_KEY_ID=key AWS_SECRET_ACCESS_KEY=secret AWS_REGION=us-east-1
head -c 17000000 /dev/urandom >"$SRC/long"
start_proxy "$server"
echo "latency=5s key=partNumber=2" >"$T/proxy.rules"
AWS_ENDPOINT_URL=$PROXY_URL sampan sync "file://$SRC" s3://b/out --json --quiet >"$T/slow" 2>&1 &
slow=$!
on_exit "kill -9 $slow"
others_there() { [ "$(grep -c 'partNumber=' "$T/log/proxy.access")" -ge 2 ]; }
until_true 60 others_there || fail "the parts are not sent: $(cat "$T/log/proxy.access")"
AWS_ENDPOINT_URL=$server sampan sync "file://$SRC" s3://b/out --json --quiet >"$T/fast" || fail "$(cat "$T/fast")"
wait $slow || fail "the one whose upload was ended: $(cat "$T/slow")"
expect "copied by it" "$(field copied <"$T/slow")" 1
expect "uploads left behind" "$(curl -sf "$server/_uploads")" 0
curl -sf "$server/b/out/long" | cmp - "$SRC/long" || fail "the store has something else"

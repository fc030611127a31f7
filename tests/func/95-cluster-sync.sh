#!/usr/bin/env bash
# A sync is shared out: as a job of the cluster, and by the workers that the command names; every object
# is copied once, and a server that dies meanwhile does its share after all.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
. "$SAMPAN_TESTS/lib/cluster.sh"
make_set --classes 3 --files 20
use_s3
s3_names
s3 put "$BUCKET" "$SRC" train/
cluster 3
at 1 expect_code 201 POST /v1/jobs -d "{\"id\":\"s\",\"type\":\"sync\",\"options\":{\"sources\":[\"s3://$BUCKET/train\"],\"destination\":\"s3://$BUCKET/copy\",\"deleteDst\":true}}"
at 2 wait_job s succeeded
expect "copied" "$(answer result.copied) $(answer result.found)" "60 60"
for k in 0 1 2; do
    [ "$(answer "result.partitions.$k.result.copied")" -gt 5 ] || fail "shares: $(cat "$T/answer")"
done
s3 keys "$BUCKET" | sed -n 's|^copy/||p' >"$T/copied"
(cd "$SRC" && find . -type f | sed 's|^\./||' | sort) | cmp - "$T/copied" || fail "the copy has other keys"
at 1 expect_code 400 POST /v1/jobs -d "{\"id\":\"x\",\"type\":\"sync\",\"options\":{\"sources\":[\"s3://$BUCKET/train\"],\"destination\":\"s3://$BUCKET/y\",\"share\":\"0/3\"}}"
# what one alone must do, server 0 does
at 1 expect_code 201 POST /v1/jobs -d "{\"id\":\"p\",\"type\":\"sync\",\"options\":{\"sources\":[\"s3://$BUCKET/train\"],\"destination\":\"s3://$BUCKET/packed\",\"pack\":8388608}}"
at 1 wait_job p succeeded
at 1 expect_code 404 GET /v1/jobs/p.p1
at 1 expect_code 201 POST /v1/jobs -d "{\"id\":\"r\",\"type\":\"rmr\",\"options\":{\"uris\":[\"s3://$BUCKET/copy/class-000\"],\"skipTrash\":true}}" ||
    fail "$(cat "$T/answer")"
at 1 wait_job r succeeded
expect "removed" "$(answer result.removed)" 20

hosts=$(printf 'http://127.0.0.1:%s,' "${member_ports[@]}")
sync() { sampan sync "s3://$BUCKET/train" "s3://$BUCKET/$1" --worker "${2:-$hosts}" --token-file "$T/token" --json "${@:3}" >"$T/out" 2>"$T/err"; }
sync copy
expect "copied and skipped" "$(field copied <"$T/out") $(field skipped <"$T/out")" "20 40"
sync other "127.0.0.1:${member_ports[0]},127.0.0.1:${member_ports[2]}" --exclude class-002/
expect "copied" "$(field copied <"$T/out")" 40
sync copy "$hosts" --check-all
expect "what was compared" "$(field checked <"$T/out") $(field checked_bytes <"$T/out")" "60 $(find "$SRC" -type f -exec cat {} + | wc -c)"
refused 1 "could not connect" sampan sync "s3://$BUCKET/train" "s3://$BUCKET/x" --worker 127.0.0.1:1
refused 4 "give --token-file" sampan sync "s3://$BUCKET/train" "s3://$BUCKET/x" --worker "$hosts"
refused 2 "workers cannot see" sampan sync "file://$SRC" "s3://$BUCKET/x" --worker "$hosts"
refused 2 "no --pack" sampan sync "s3://$BUCKET/train" "s3://$BUCKET/x" --worker "$hosts" --pack 8MiB
# what the servers cannot be told is refused, not left out: they would write and delete as another user
refused 2 "no --webhdfs-user" sampan sync "webhdfs://127.0.0.1:1/a" "s3://$BUCKET/x" --worker "$hosts" --webhdfs-user alice
refused 2 "no --webhdfs-port" sampan sync "hdfs://127.0.0.1/a" "s3://$BUCKET/x" --worker "$hosts" --webhdfs-port 9871
refused 2 "no --memory" sampan sync "s3://$BUCKET/train" "s3://$BUCKET/x" --worker "$hosts" --memory 1GiB
refused 2 "no --requester-pays" sampan sync "s3://$BUCKET/train" "s3://$BUCKET/x" --worker "$hosts" --requester-pays
# a worker's failure is the command's
code=0
sampan sync "s3://none-of-ours/a" "s3://$BUCKET/x" --worker "$hosts" --token-file "$T/token" >"$T/out" 2>"$T/err" || code=$?
expect "exit code" "$code" 1
grep -q none-of-ours "$T/err" || fail "$(cat "$T/err")"

# what a proxy before a worker says while that is away is no end of it, in whatever words
start_proxy "http://127.0.0.1:${member_ports[0]}"
faults "status=503 key=/v1/jobs/ times=1"
sync proxied "$PROXY_URL,127.0.0.1:${member_ports[1]}" || fail "$(cat "$T/err")"
expect "copied" "$(field copied <"$T/out")" 60
grep -q "a worker is lost, and asked again: $PROXY_URL: it answers with status 503" "$T/err" || fail "$(cat "$T/err")"
stop_proxy
rm "$T/proxy.port"

# killed while it copies its share
(SAMPAN_TIMEOUT=60 sync slow "" --bwlimit 15KB && echo done >"$T/ended") &
shares() { at 2 ask GET '/v1/jobs?type=sync&state=running' && [ "$(answer jobs)" != "[]" ]; }
until_true 30 shares || fail "no share is under way: $(cat "$T/answer" "$T/err")"
stop_member 2 KILL
old=${member_ports[2]}
LISTEN_PORT=$old start_member 2
until_true 50 test -e "$T/ended" || fail "$(cat "$T/err")"
expect "copied by all" "$(s3 keys "$BUCKET" | grep -c '^slow/')" 60

# Cancelled with keys of its own, and server 0 killed before the others heard of it: they stop all the same.
start_proxy "$MOTO_URL"
faults "stall-head key=keyed/class"
keys="{\"accessKeyId\":\"$AWS_ACCESS_KEY_ID\",\"secretAccessKey\":\"$AWS_SECRET_ACCESS_KEY\"}"
share_runs() { at 2 ask GET "/v1/jobs/$1" && [ "$(answer partitions.2.state 2>/dev/null)" = running ]; }
keyed() { # ID : until it is under way
    at 1 expect_code 201 POST /v1/jobs -d "{\"id\":\"$1\",\"type\":\"sync\",\"options\":{\"sources\":[\"s3://$BUCKET/train\"],\"destination\":\"s3://$BUCKET/keyed\",\"destinationEndpoint\":\"$PROXY_URL\",\"credentials\":$keys,\"destinationCredentials\":$keys}}"
    until_true 30 share_runs "$1" || fail "no share is under way: $(cat "$T/answer")"
}
keyed k
kill -STOP "${member_pids[2]}"
at 0 expect_code 200 DELETE /v1/jobs/k
stop_member 0 KILL
kill -CONT "${member_pids[2]}"
start_member 0
at 1 wait_job k cancelled
at 2 wait_job k.p2 cancelled
# So they do when it fails, as nobody has the keys any more.
keyed f
stop_member 0 KILL
start_member 0
at 1 wait_job f failed
case $(answer error) in *"credentials given with the job are lost"*) ;; *) fail "$(cat "$T/answer")" ;; esac
for k in 1 2; do at "$k" wait_job "f.p$k" cancelled; done
stop_cluster

#!/usr/bin/env bash
# A mount whose daemon hangs, or whose store does, holds up nobody: who asks is told that it is lost, a job that waits
# for it is cancelled, and the runtime server ends when it is told to.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
make_set --classes 2 --files 5
start_nginx
start_proxy "$HTTP_URL"
mount_set "$PROXY_URL/" --no-keeper
start_serve

# The daemon waits for the store, and has nothing to tell.
faults "stall-head key=class-001"
lists() { sampan status "$MNT" --json | has '"in_flight":[1-9]'; }
expect_code 201 POST /v1/jobs -d '{"id":"cancelled","type":"scan"}'
until_true 20 lists || fail "the scan asks for nothing"
expect_code 200 DELETE /v1/jobs/cancelled
wait_job cancelled cancelled
expect_code 201 POST /v1/jobs -d '{"id":"goes-on","type":"scan"}'
wait_job goes-on running
stop_serve
faults ""
start_serve
wait_job goes-on succeeded

# It hangs itself.
daemon=$(daemon_pid)
kill -STOP "$daemon"
on_exit "kill -CONT $daemon"
expect_code 201 POST /v1/jobs -d '{"id":"hangs","type":"clear"}'
wait_job hangs running
asking=()
for path in /readyz /v1/status /metrics /v1/version /v1/catalog/current; do
    curl -sS --max-time 300 -o "$T/answer${path//\//-}" -w '%{http_code}' -H "Authorization: Bearer $TOKEN" \
        "http://127.0.0.1:$PORT$path" >"$T/code${path//\//-}" &
    asking+=($!)
done
expect_code 503 POST /v1/settings -d '{"sampler":"sequence"}'
wait "${asking[@]}"
expect "ready, and the version" "$(cat "$T/code-readyz" "$T/code-v1-version" "$T/code-v1-catalog-current")" "503503503"
expect "the mount" "$(field mounts.0.state <"$T/answer-v1-status")" lost
grep -q '^sampan_mount_up{.*} 0$' "$T/answer-metrics" || fail "metrics: $(cat "$T/answer-metrics")"
expect_code 200 DELETE /v1/jobs/hangs
wait_job hangs cancelled
stop_serve
kill -CONT "$daemon"
unmount

#!/usr/bin/env bash
# What the server tells: no program's name, no secret, no folder of the node; the dashboard's files to
# everybody and data to nobody without the token; nothing to the page of another site.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
make_set --classes 1 --files 3
mount_set "file://$SRC"
start_serve --log "$T/log/serve.txt" --log-level debug

# The dashboard is open, strict about what it loads, and holds nothing of this server.
for path in /ui /ui/app.js /ui/style.css /ui/icon.svg; do
    BEARER= expect_code 200 GET "$path" -D "$T/head"
    grep -qi "^content-security-policy: default-src 'none'; script-src 'self';" "$T/head" || fail "$path: $(cat "$T/head")"
    grep -qi '^x-content-type-options: nosniff' "$T/head" || fail "$path: $(cat "$T/head")"
    ! grep -q "$MNT" "$T/answer" || fail "$path tells of a mount"
done
BEARER= expect_code 404 GET /ui/../../etc/passwd --path-as-is
BEARER= expect_code 404 GET /ui/%2e%2e%2fapp.js
BEARER= expect_code 404 GET /ui/none
BEARER= expect_code 302 GET /
for path in /metrics /events /v1/status /v1/jobs; do
    BEARER= expect_code 401 GET "$path" -D "$T/head"
    ! grep -qi '^server:' "$T/head" || fail "it tells its name: $(cat "$T/head")"
done
printf 'nonsense\r\n\r\n' | timeout 600 "$PYTHON" -c '
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.sendall(sys.stdin.buffer.read())
print(s.recv(65536).decode("latin-1"))' "$PORT" >"$T/nonsense"
! grep -Eqi 'microhttpd|sampan/|^server:' "$T/nonsense" || fail "an error tells its name: $(cat "$T/nonsense")"

# Tokens that share a beginning, an end, a length, or nothing.
for wrong in 0123456789abcdef-secre 0123456789abcdef-secretX 1123456789abcdef-secret 0123456789abcdef-secreT " " "$TOKEN $TOKEN"; do
    BEARER=$wrong expect_code 401 GET /v1/status
    ! grep -q 'abcdef' "$T/answer" || fail "a token came back: $(cat "$T/answer")"
done
BEARER= expect_code 401 GET /v1/status -H "Authorization: Basic $TOKEN"
BEARER= expect_code 401 GET "/v1/status?token=$TOKEN"

# Another site's page, with the browser's own words; our own page may.
expect_code 403 GET /v1/status -H 'Sec-Fetch-Site: cross-site'
expect_code 403 POST /v1/jobs -H 'Origin: http://evil.example' -d '{"id":"x","type":"scan"}'
expect_code 200 GET /v1/status -H "Origin: http://127.0.0.1:$PORT" -H 'Sec-Fetch-Site: same-origin'

# Secrets in a URL are refused before they are kept, and said nowhere.
expect_code 400 POST /v1/jobs -d '{"id":"k","type":"sync","options":{"sources":["s3://KEYID:Hunter2Secret@bucket/x"],"destination":"s3://b/y"}}'
! grep -q Hunter2 "$T/answer" || fail "a secret came back: $(cat "$T/answer")"
expect_code 400 POST /v1/jobs -d '{"id":"k","type":"sync","options":{"sources":["s3://b/y"],"destination":"s3://KEYID:Hunter2Secret@bucket/x"}}'
! grep -q Hunter2 "$T/answer" || fail "a secret came back: $(cat "$T/answer")"
expect_code 404 GET /v1/jobs/k

# Paths that lead out of the set.
for path in ../etc a/../../b .. /.. a/..; do
    for type in warmup clear; do
        expect_code 400 POST /v1/jobs -d "{\"id\":\"p\",\"type\":\"$type\",\"options\":{\"paths\":[\"$path\"]}}"
    done
    expect_code 400 POST /upload/warmupOptions -H 'filename: p' -d "{\"paths\":[\"/mnt/set/$path/x\"]}"
done
expect_code 200 GET /v1/jobs
expect "jobs" "$(answer jobs)" "[]"

# A secret may hold what stands before a host, and slashes.
n=0
for secret in p@Hunter2 p/w@Hunter2 @Hunter2@; do
    expect_code 200 POST /upload/syncOptions -H "filename: at-$((++n))" \
        -d "{\"source\":\"minio://KEYID:$secret@127.0.0.1:1/b/a@b\",\"destination\":\"minio://127.0.0.1:1/b/y\"}"
    expect_code 200 GET "/v1/jobs/sync.at-$n"
    expect "what is kept of it" "$(answer options.sources.0)" minio://127.0.0.1:1/b/a@b
    ! grep -q Hunter2 "$T/answer" || fail "a secret came back: $(cat "$T/answer")"
done
stop_serve

# Without a token only names of this machine are answered: a page cannot come by another name.
start_open() {
    : >"$T/log/serve"
    "$S" serve --listen 127.0.0.1:0 --state "$T/serve" --no-auth --mount "$MNT" >>"$T/log/serve" 2>&1 &
    serve_pid=$!
    until_true 20 grep -q 'sampan serve: listening on port' "$T/log/serve" || fail "serve does not start: $(cat "$T/log/serve")"
    PORT=$(sed -n 's/.*sampan serve: listening on port \([0-9]*\).*/\1/p' "$T/log/serve")
}
start_open
BEARER= expect_code 200 GET /v1/status
BEARER= expect_code 200 GET /v1/status -H 'Host: localhost:7716'
BEARER= expect_code 403 GET /v1/status -H 'Host: rebound.example'
BEARER= expect_code 403 POST /v1/jobs -H 'Origin: null' -d '{"id":"x","type":"scan"}'
stop_serve
! grep -rq "$TOKEN\|Hunter2" "$T/log" "$T/serve" || fail "a secret was written: $(grep -rl "$TOKEN\|Hunter2" "$T/log" "$T/serve")"
unmount

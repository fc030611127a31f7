#!/usr/bin/env bash
# What the runtime server refuses, it refuses by name, before anything is opened or changed.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
make_set --classes 1 --files 3
mount_set "file://$SRC"
serve() { sampan serve --state "$T/serve" "$@"; }

refused 2 "--token-file" serve --listen 127.0.0.1:0
refused 4 "--no-auth" serve --listen 0.0.0.0:0 --no-auth
refused 2 "exclude each other" serve --listen 127.0.0.1:0 --no-auth --token-file "$T/token"
refused 2 "--listen" serve --listen 127.0.0.1 --no-auth
refused 2 "--listen" serve --listen ::1:7716 --no-auth
refused 2 "--listen.*65535" serve --listen 127.0.0.1:99999 --no-auth
refused 2 "--compat-peers" serve --listen 127.0.0.1:0 --no-auth --compat-peers 10.0.0.0/33
refused 3 "token file" serve --listen 127.0.0.1:0 --token-file "$T/none"
echo short >"$T/short"
refused 2 "at least 16" serve --listen 127.0.0.1:0 --token-file "$T/short"
refused 2 "go together" serve --listen 127.0.0.1:0 --no-auth --tls-cert "$T/x"
refused 3 "no mount of ours" serve --listen 127.0.0.1:0 --no-auth --mount "$T"
refused 2 "given twice" serve --listen 127.0.0.1:0 --no-auth --mount "$MNT" --mount "$MNT/"
refused 2 "no UTF-8" serve --listen 127.0.0.1:0 --no-auth --mount "$MNT" --mount "$T/"$'caf\xe9'
[ ! -e "$T/serve" ] || fail "something was made although all was refused"

start_serve --log "$T/log/serve.txt"
expect_code 404 GET /nowhere
expect_code 405 DELETE /v1/status
expect_code 404 GET /v1/jobs/none
expect_code 404 DELETE /v1/jobs/none
expect_code 404 GET /v1/jobs/a/b/c
# A zero byte ends no name: what follows it is not passed over.
expect_code 404 GET /v1/jobs%00x
expect_code 404 GET /healthz%00
expect_code 400 GET /v1/jobs?state=failed%00x
expect_code 400 POST /v1/jobs -d '{'
expect_code 400 POST /v1/jobs -d '{"id":"a","type":"warmup","options":{"paths":["../etc"]}}'
grep -q 'options.paths' "$T/answer" || fail "the error names no place: $(cat "$T/answer")"
expect_code 400 POST /v1/jobs -d '{"id":"a","type":"warmup","options":{"paths":"x"}}'
expect_code 400 POST /v1/jobs -d '{"id":"a","type":"warmup","options":{"mount":"/etc"}}'
expect_code 400 POST /v1/jobs -d '{"id":"a","id":"b","type":"warmup"}'
expect_code 400 POST /v1/jobs -d '{"id":"a","type":"evict"}'
expect_code 403 POST /v1/jobs -d "{\"id\":\"a\",\"type\":\"rmr\",\"options\":{\"uris\":[\"file://$MNT/\"]}}"
grep -q 'whole mount' "$T/answer" || fail "the error is another one: $(cat "$T/answer")"
head -c 1100000 /dev/zero | tr '\0' x >"$T/huge"
expect_code 413 POST /v1/jobs --data-binary "@$T/huge"
expect_code 200 GET /v1/jobs
expect "jobs" "$(answer jobs)" "[]"

# Requests whose end a proxy before us might see elsewhere, or that name no host.
"$PYTHON" - "$PORT" "$TOKEN" <<'PY' || fail "a request of two readings is taken"
import socket, sys
port, token = int(sys.argv[1]), sys.argv[2]
def code(first, *heads, body=b""):
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall("\r\n".join([first, *heads, f"Authorization: Bearer {token}", "", ""]).encode() + body)
        return s.makefile("rb").readline().split()[1]
host, length = "Host: 127.0.0.1", "Content-Length: 5"
assert code("GET /v1/jobs HTTP/1.1", host) == code("GET /v1/jobs HTTP/1.0") == b"200"
assert code("GET /v1/jobs HTTP/1.1") == b"400"
assert code("GET /v1/jobs HTTP/1.1", host, length, "Transfer-Encoding: chunked", body=b"0\r\n\r\n") == b"400"
assert code("GET /v1/jobs HTTP/1.1", host, length, "Content-Length: 0", body=b"12345") == b"400"
for blank in " ", "\t":
    assert code("GET /v1/jobs HTTP/1.1", host, f"Content-Length{blank}: 5", body=b"12345") == b"400"
    assert code("GET /v1/jobs HTTP/1.1", host, f"transfer-encoding{blank}: chunked", body=b"0\r\n\r\n") == b"400"
# A body that says that it is too large is not waited for.
assert code("POST /v1/jobs HTTP/1.1", host, "Content-Length: 1048577") == b"413"
assert code("POST /v1/jobs HTTP/1.1", host, "Content-Length: 18446744073709551614") == b"413"
assert code("POST /v1/lists HTTP/1.1", host, "Content-Length: 67108865") == b"413"
PY

# A token that is rotated: the new one is good at once, the old one no more; who listens by it hears nothing more.
timeout 600 curl -sN -H "Authorization: Bearer $TOKEN" "http://127.0.0.1:$PORT/events" >"$T/events" &
listener=$!
until_true 10 grep -q retry "$T/events" || fail "no events"
sleep 0.02
echo another-token-of-enough-length >"$T/token"
expect_code 401 GET /v1/status
BEARER=another-token-of-enough-length expect_code 200 GET /v1/status
BEARER=another-token-of-enough-length expect_code 201 POST /v1/jobs -d '{"id":"unheard","type":"scan"}'
wait "$listener" || fail "the stream outlives its token"
! grep unheard "$T/events" || fail "an event was told to who shows an old token"
# One of no use changes nothing, and the log says so, once.
sleep 0.02
echo short >"$T/token"
for i in 1 2 3; do BEARER=another-token-of-enough-length expect_code 200 GET /v1/status; done
BEARER=short expect_code 401 GET /v1/status
expect "warnings" "$(grep -c 'token stays as it was: .*at least 16' "$T/log/serve.txt")" 1
echo "$TOKEN" >"$T/token"
stop_serve

# The state of another program is left alone.
echo "notes of somebody, who would miss them; long enough to look like a file" >"$T/serve/jobs.db"
rm -f "$T"/serve/jobs.db-*
refused 1 "jobs.db" serve --listen 127.0.0.1:0 --no-auth
grep -q notes "$T/serve/jobs.db" || fail "the foreign file was changed"
unmount

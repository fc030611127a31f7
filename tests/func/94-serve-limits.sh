#!/usr/bin/env bash
# A client who sends or reads a byte now and then, or asks too often, is cut off; others notice nothing.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
make_set --classes 1 --files 3
mount_set "file://$SRC"
start_serve --request-timeout 6s --rate-limit 300

# Heads and bodies that come in drops: each sends on until it is cut off; meanwhile others are served.
PYTHONPATH="$SAMPAN_TESTS/lib" "$PYTHON" - "$PORT" "$TOKEN" <<'PY' || fail "slow clients are not cut off"
import http.client, sys, time
from drip import drip_all
port, token = int(sys.argv[1]), sys.argv[2]
head = f"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"

def another():
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    c.request("GET", "/v1/status", headers={"Authorization": f"Bearer {token}"})
    assert c.getresponse().status == 200
    time.sleep(0.05)

slow = [(b"GET /v1/st", b"a"), (head.encode(), b"X-A: b\r\n"),
        ((head + "Content-Length: 100000\r\n\r\n").encode(), b"x"),
        ((head + "Transfer-Encoding: chunked\r\n\r\n").encode(), b"1\r\nx\r\n")]
sys.exit(not drip_all(port, slow, another))
PY
expect_code 200 GET /metrics
at_least "cut off" "$(sed -n 's/^sampan_http_timed_out_total //p' "$T/answer")" 4

# A connection between two requests may rest; its next request is served.
"$PYTHON" - "$PORT" <<'PY' || fail "too many requests are taken"
import http.client, sys
c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=300)
def status(path, **headers):
    c.request("GET", path, headers=headers)
    answer = c.getresponse()
    answer.read()
    return answer
# Wrong tokens weigh more: they run dry long before 300 of them.
seen = [status("/v1/status", Authorization="Bearer a-guess-of-enough-length").status for _ in range(2000)]
assert set(seen) == {401, 429}, set(seen)
limited = status("/healthz")
while limited.status != 429:
    limited = status("/healthz")
assert limited.getheader("Retry-After") == "1"
PY
calm() { ask GET /v1/status && [ "$CODE" = 200 ]; }
until_true 20 calm || fail "the address stays cut off: $CODE"
expect_code 200 GET /metrics
at_least "limited" "$(sed -n 's/^sampan_http_limited_total //p' "$T/answer")" 2

# Sizes: of a head, of an id, of a body.
expect_code 431 GET /v1/status -H "X-Long: $(head -c 60000 /dev/zero | tr '\0' a)"
expect_code 404 GET "/v1/jobs/$(head -c 300 /dev/zero | tr '\0' a)"
head -c 1100000 /dev/zero | tr '\0' x >"$T/huge"
expect_code 413 POST /v1/jobs --data-binary "@$T/huge" -H 'Transfer-Encoding: chunked'
expect_code 200 GET /v1/jobs
expect "jobs" "$(answer jobs)" "[]"
stop_serve
unmount

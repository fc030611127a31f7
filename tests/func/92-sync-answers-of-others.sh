#!/usr/bin/env bash
# "200" that is not the store's: a web page of a portal, an error that only the body tells, nothing at all where WebHDFS says
# where the bytes go. Nothing is taken for written then; what is answered so only for a while is written after all.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/s3mem.sh"
. "$SAMPAN_TESTS/servers/start.sh"
mkdir -p "$SRC"
for i in 1 2 3; do seq "$i" 500 >"$SRC/$i"; done
cat >"$T/between.py" <<'PY'
import http.client, http.server, os, sys, threading

LOCK = threading.Lock()
ANSWERS = {"page": ("text/html", b"<html><body>Please log in</body></html>"), "nothing": ("text/plain", b""),
           "error": ("application/xml", b"<Error><Code>SlowDown</Code><Message>later</Message></Error>")}

def take_one(): # which answer is given instead of the store's, if any is left
    with LOCK:
        with open(sys.argv[2], encoding="ascii") as f:
            kind, left = (f.read().split() + ["", "0"])[:2]
        if left != "0":
            with open(sys.argv[2], "w", encoding="ascii") as f:
                f.write(f"{kind} {int(left) - 1}")
        return kind if left != "0" else None

class Between(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        kind = self.command == "PUT" and "op=MKDIRS" not in self.path and take_one()
        if kind:
            return self.say(200, {"Content-Type": ANSWERS[kind][0]}, ANSWERS[kind][1])
        store = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
        store.request(self.command, self.path, body, dict(self.headers))
        answer = store.getresponse()
        said = answer.read()
        headers = {k: v for k, v in answer.getheaders() if k.lower() not in ("content-length", "connection", "transfer-encoding")}
        return self.say(answer.status, headers, said, answer.getheader("Content-Length"))

    def say(self, status, headers, body, length=None):
        self.send_response_only(status)
        for header in headers.items():
            self.send_header(*header)
        self.send_header("Content-Length", length or str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = any

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Between)
with open(sys.argv[3] + ".new", "w", encoding="ascii") as f:
    f.write(str(server.server_address[1]))
os.rename(sys.argv[3] + ".new", sys.argv[3])
server.serve_forever()
PY
between() { # PORT : what stands before it has the port $BETWEEN
    rm -f "$T/between.port"
    "$PYTHON" "$T/between.py" "$1" "$T/answers" "$T/between.port" 2>"$T/log/between" &
    on_exit "kill -9 $!"
    until_true 20 test -f "$T/between.port" || fail "the relay does not start"
    BETWEEN=$(cat "$T/between.port")
}
sync() { sampan sync "file://$SRC" "$1" --json --quiet >"$T/out" 2>"$T/err"; }
refuses() { # KIND WHERE WHY
    local code=0
    echo "$1 1000" >"$T/answers"
    sync "$2" || code=$?
    expect "exit code for $1" "$code" 1
    expect "copied, failed" "$(field copied <"$T/out") $(field failed <"$T/out")" "0 3"
    grep -q "$3" "$T/out" "$T/err" || fail "$1: $(cat "$T/out" "$T/err")"
}
passes() { # KIND WHERE
    echo "$1 2" >"$T/answers"
    sync "$2" || fail "$1: $(cat "$T/out" "$T/err")"
    rm -rf "$T/back"
    sampan sync "$2" "file://$T/back" --quiet
    same_bytes "$SRC" "$T/back"
}
: >"$T/answers"
start_s3mem
between "${STORE##*:}"
export AWS_ENDPOINT_URL=http://127.0.0.1:$BETWEEN
refuses page s3://b/x/ "answer is a web page"
refuses error s3://b/x/ SlowDown
passes page s3://b/p/
passes error s3://b/e/
mkdir "$T/hdfs"
SRC=$T/hdfs start_webhdfs
between "$HDFS_PORT"
refuses page "webhdfs://127.0.0.1:$BETWEEN/" "answer is a web page"
refuses nothing "webhdfs://127.0.0.1:$BETWEEN/" "none were sent"
passes page "webhdfs://127.0.0.1:$BETWEEN/"

#!/usr/bin/env bash
# Web servers that say less: one that answers no HEAD, one that lists neither sizes nor times, one that also leaves the
# length out of a HEAD of an empty file (as Apache does, whose index pages can be without sizes), one that lists a link
# that leads nowhere. And one that says more: it has a page, a long one, for all that is not there.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 3 --files 40
start_nginx 'if ($request_method = HEAD) { return 405; }'
mount_set "$HTTP_URL/"
same_bytes "$SRC" "$MNT"
at_most "questions to a server that answers none" "$(grep -c '^HEAD' "$T/log/nginx.access")" 80
unmount
stop_nginx
port=$(free_port)
"$PYTHON" -m http.server -d "$SRC" --bind 127.0.0.1 "$port" >"$T/log/python" 2>&1 &
on_exit "kill -9 $!"
until_true 20 curl -s -o "$T/up" "http://127.0.0.1:$port/" || fail "Python's server does not answer"
mount_set "http://127.0.0.1:$port/" --cache "ssd:$CACHE-2=1GiB"
same_tree "$SRC" "$MNT" # with the times, which it tells to the second
unmount

# A link that leads nowhere is listed, too: it alone is not in the set, and nothing is deleted for its sake.
cp -a "$SRC" "$T/before"
ln -s nothing "$SRC/class-001/gone"
"$SAMPAN" scan "http://127.0.0.1:$port/" 2>"$T/said" || fail "a link that leads nowhere is the end of a scan: $(cat "$T/said")"
grep -q 'warning: not in the set: class-001/gone: a link that leads nowhere' "$T/said" || fail "scan: $(cat "$T/said")"
mkdir "$T/copy" && : >"$T/copy/extra"
"$SAMPAN" sync "http://127.0.0.1:$port/" "file://$T/copy/" --delete-dst 2>"$T/said" && fail "sync says that all is copied"
grep -q 'failed: class-001/gone: a link that leads nowhere' "$T/said" || fail "sync: $(cat "$T/said")"
[ -e "$T/copy/extra" ] || fail "something was deleted"
rm "$T/copy/extra" "$SRC/class-001/gone"
same_tree "$T/before" "$T/copy"

: >"$SRC/empty"
cat >"$T/terse.py" <<'PY'
import http.server, sys

class Terse(http.server.SimpleHTTPRequestHandler):
    def send_header(self, name, value):
        if not (self.command == "HEAD" and name == "Content-Length" and value == "0"):
            super().send_header(name, value)

    def send_error(self, code, message=None, explain=None):
        page = b"<html>not here" + b" " * 100000
        self.send_response(200)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(page)

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Terse).serve_forever()
PY
port=$(free_port)
(cd "$SRC" && exec "$PYTHON" "$T/terse.py" "$port" >"$T/log/terse" 2>&1) &
on_exit "kill -9 $!"
until_true 20 curl -s -o "$T/up" "http://127.0.0.1:$port/" || fail "the terse server does not answer"
mount_set "http://127.0.0.1:$port/" --cache "ssd:$CACHE-3=1GiB"
same_tree "$SRC" "$MNT"
unmount
nothing_left

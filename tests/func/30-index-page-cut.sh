#!/usr/bin/env bash
# A web server that ends in the midst of an index page whose length it did not tell: half a listing is none. A sync would
# delete what stood behind the cut, and a new version would be without it.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 12
cat >"$T/cut.py" <<'PY'
import http.server, os, sys

class Cut(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if not self.path.endswith("/") or not os.path.exists(sys.argv[2]):
            return super().do_GET()
        names = sorted(os.listdir(self.translate_path(self.path)))
        page = "<html><body><ul>" + "".join(f'<li><a href="{n}">{n}</a></li>\n' for n in names) + "</ul></body></html>"
        self.wfile.write(b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n" + page.encode()[: len(page) // 2])
        self.close_connection = True

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Cut).serve_forever()
PY
port=$(free_port)
(cd "$SRC/class-000" && exec "$PYTHON" "$T/cut.py" "$port" "$T/cut" >"$T/log/cut" 2>&1) &
on_exit "kill -9 $!"
until_true 20 curl -s -o "$T/up" "http://127.0.0.1:$port/" || fail "the server does not answer"
URL=http://127.0.0.1:$port/
mount_set "$URL"
sampan sync "$URL" "file://$T/copy"
: >"$T/cut"
refused 1 "index page ends in its midst" sampan scan "$MNT"
refused 1 "index page ends in its midst" sampan sync "$URL" "file://$T/copy" --delete-dst
same_bytes "$SRC/class-000" "$T/copy"
same_bytes "$SRC/class-000" "$MNT"
rm "$T/cut"
sampan scan "$MNT" >"$T/out"
expect "samples" "$(status set.samples)" 12
unmount
nothing_left

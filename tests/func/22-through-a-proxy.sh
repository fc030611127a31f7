#!/usr/bin/env bash
# A store that only a proxy reaches: its name resolves nowhere here. The proxy is that of --proxy or of the environment,
# NO_PROXY leaves it out; one that is not there, or that wants a password, is named in what is said, of a TLS server, too.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 4
write_manifest
start_nginx "if (-f $T/denied) { return 407; }"
far=http://set.invalid/manifest.tsv

reaches() { # [OPTION…]
    mount_set "$far" --cache "ssd:$(mktemp -d "$T/cache-XXXXXX")=1GiB" "$@"
    mv "$SRC/manifest.tsv" "$T/"
    same_tree "$SRC" "$MNT"
    mv "$T/manifest.tsv" "$SRC/"
    unmount
}

try() { sampan mount "$far" "$MNT" --cache "ssd:$CACHE=1GiB" "$@"; }

reaches --proxy "$HTTP_URL"
http_proxy=$HTTP_URL reaches
HTTP_PROXY=$HTTP_URL reaches
refused 1 "resolve" try
http_proxy=$HTTP_URL no_proxy=set.invalid refused 1 "resolve" try
nothing_left

touch "$T/denied"
refused 4 "407.*proxy|proxy.*password" try --proxy "$HTTP_URL"
rm "$T/denied"
port=$(free_port)
"$PYTHON" -c '
import http.server, sys
class Closed(http.server.BaseHTTPRequestHandler):
    def do_CONNECT(self):
        self.send_error(407)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Closed).serve_forever()' "$port" 2>"$T/log/connects" &
on_exit "kill $!; wait $!"
until_true 20 curl -s -o "$T/up" "http://127.0.0.1:$port/" || fail "the proxy does not answer"
: >"$T/log/connects"
far=https://set.invalid/manifest.tsv refused 4 "the proxy wants a password: https://set.invalid: .*407" try --proxy "http://127.0.0.1:$port"
at_most "questions to a proxy that wants a password" "$(grep -c CONNECT "$T/log/connects")" 2
refused 1 "proxy" try --proxy "http://127.0.0.1:$(free_port)"
refused 1 "proxy" try --proxy http://no-such-proxy.invalid:3128
nothing_left

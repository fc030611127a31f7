#!/usr/bin/env bash
# What is asked for over TLS is not taken from an address without it, wherever a server leads; another address with TLS is
# gone to.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
need_command openssl
make_set --classes 1 --files 1
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$T/own.key" -out "$T/own.pem" -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost 2>/dev/null
start_nginx
tls_server() { # NAME LINE-FOR-FILES: another nginx, its port in $NAME
    declare -g "$1=$(free_port)"
    sed "s#listen 127.0.0.1:$HTTP_PORT;#listen 127.0.0.1:${!1} ssl; ssl_certificate $T/own.pem; ssl_certificate_key $T/own.key; $2#; s#nginx.pid#$1.pid#" \
        "$T/nginx.conf" >"$T/$1.conf"
    nginx -p "$T" -c "$T/$1.conf" 2>>"$T/log/nginx.error" &
    on_exit "kill $!"
    until_true 20 curl -sk -o "$T/up" "https://localhost:${!1}/" || fail "nginx does not answer"
}
tls_server safe ""
tls_server down 'location ~ bin$ { return 302 http://localhost:'"$HTTP_PORT"'$request_uri; }'
tls_server across 'location ~ bin$ { return 302 https://localhost:'"$safe"'$request_uri; }'
mount_set "https://localhost:$across/" --ca-file "$T/own.pem"
same_bytes "$SRC" "$MNT"
unmount
: >"$T/log/nginx.access"
mount_set "https://localhost:$down/" --ca-file "$T/own.pem" --cache "ssd:$T/cache2=1GiB"
cat "$MNT/class-000/000000.bin" >"$T/got" 2>"$T/why" && fail "it was read"
grep -q "Input/output error" "$T/why" || fail "$(cat "$T/why")"
unmount
refused 1 "redirected to an address that is refused: https://localhost:$down: what is asked for over TLS comes over TLS" \
    sampan sync --ca-file "$T/own.pem" "https://localhost:$down/" "file://$T/copy"
grep -q "bin .* 302 " "$T/log/nginx.access" || fail "nobody was redirected"
grep -q "bin .* 20[06] " "$T/log/nginx.access" && fail "it was fetched without TLS"
true

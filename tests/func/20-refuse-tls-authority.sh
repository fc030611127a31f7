#!/usr/bin/env bash
# A certificate of an unknown authority is refused (and names --ca-file); with --ca-file it is taken.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
need_command openssl
make_set --classes 1 --files 3
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$T/key.pem" -out "$T/cert.pem" -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost,IP:127.0.0.1 2>/dev/null
start_nginx
port=$(free_port)
sed -i "s#listen 127.0.0.1:$HTTP_PORT;#listen 127.0.0.1:$port ssl; ssl_certificate $T/cert.pem; ssl_certificate_key $T/key.pem;#" "$T/nginx.conf"
stop_nginx
nginx -p "$T" -c "$T/nginx.conf" 2>>"$T/log/nginx.error" &
on_exit "kill $!"
until_true 20 curl -sk -o "$T/up" "https://localhost:$port/" || fail "nginx does not answer"
refused 1 "ca-file" sampan mount "https://localhost:$port/" "$MNT" --cache "ssd:$CACHE=1GiB"
nothing_left
mount_set "https://localhost:$port/" --ca-file "$T/cert.pem"
same_bytes "$SRC" "$MNT"
unmount

#!/usr/bin/env bash
# A certificate of an unknown authority is refused (and names --ca-file); with --ca-file it is taken. One that has expired,
# or is of another host, is refused with what would help, which is no --ca-file.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
need_command openssl
make_set --classes 1 --files 3
certificate() { # NAME HOST
    openssl req -x509 -newkey rsa:2048 -nodes -keyout "$T/$1.key" -out "$T/$1.pem" -days 2 -subj "/CN=$2" \
        -addext "subjectAltName=DNS:$2" 2>/dev/null
}
certificate own localhost
certificate other elsewhere.example
certificate old localhost
openssl x509 -x509toreq -in "$T/old.pem" -signkey "$T/old.key" -out "$T/old.csr" 2>/dev/null
openssl x509 -req -in "$T/old.csr" -signkey "$T/old.key" -days -1 -out "$T/old.pem" 2>/dev/null
start_nginx
stop_nginx
for name in own other old; do
    declare "$name=$(free_port)"
    sed "s#listen 127.0.0.1:$HTTP_PORT;#listen 127.0.0.1:${!name} ssl; ssl_certificate $T/$name.pem; ssl_certificate_key $T/$name.key;#; s#nginx.pid#$name.pid#" \
        "$T/nginx.conf" >"$T/$name.conf"
    nginx -p "$T" -c "$T/$name.conf" 2>>"$T/log/nginx.error" &
    on_exit "kill $!"
    until_true 20 curl -sk -o "$T/up" "https://localhost:${!name}/" || fail "nginx does not answer"
done
refused 1 "give the authority that signed it with --ca-file" sampan mount "https://localhost:$own/" "$MNT" --cache "ssd:$CACHE=1GiB"
refused 1 "subject name.*call the server by a name that its certificate has" \
    sampan mount "https://localhost:$other/" "$MNT" --ca-file "$T/other.pem" --cache "ssd:$CACHE=1GiB"
refused 1 "has expired.*renew it; or is this machine's clock wrong" \
    sampan mount "https://localhost:$old/" "$MNT" --ca-file "$T/old.pem" --cache "ssd:$CACHE=1GiB"
nothing_left
mount_set "https://localhost:$own/" --ca-file "$T/own.pem"
same_bytes "$SRC" "$MNT"
unmount
SSL_CERT_FILE=$T/own.pem mount_set "https://localhost:$own/" --cache "ssd:$T/cache2=1GiB"
same_bytes "$SRC" "$MNT"
unmount

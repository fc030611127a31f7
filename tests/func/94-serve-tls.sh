#!/usr/bin/env bash
# HTTPS; a renewed certificate is taken over without a restart, half a pair never is, and is told of once.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
need_command openssl
make_set --classes 1 --files 3
mount_set "file://$SRC"
new_pair() { # NAME
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=$1" \
        -addext 'subjectAltName=IP:127.0.0.1' -keyout "$T/$1.key" -out "$T/$1.crt" 2>/dev/null
}
new_pair one
new_pair two
cp "$T/one.crt" "$T/tls.crt"
cp "$T/one.key" "$T/tls.key"
start_serve --tls-cert "$T/tls.crt" --tls-key "$T/tls.key" --log "$T/log/serve.txt"
SCHEME=https
expect_code 200 GET /v1/status --cacert "$T/one.crt"
cp "$T/two.crt" "$T/tls.crt"
until_true 60 grep -q 'do not fit' "$T/log/serve.txt" || fail "half a pair was not noticed: $(cat "$T/log/serve.txt")"
expect_code 200 GET /v1/status --cacert "$T/one.crt"
sleep 6 # it is looked at once more
[ "$(grep -c 'do not fit' "$T/log/serve.txt")" = 1 ] || fail "told of again: $(cat "$T/log/serve.txt")"
cp "$T/two.key" "$T/tls.key"
until_true 60 grep -q 'certificate was renewed' "$T/log/serve.txt" || fail "not renewed: $(cat "$T/log/serve.txt")"
expect_code 200 GET /v1/status --cacert "$T/two.crt"
stop_serve
unmount

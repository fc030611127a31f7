#!/usr/bin/env bash
# An S3 server whose certificate an authority of its own has signed, which is named as AWS' tools take it: by
# AWS_CA_BUNDLE, or by ca_bundle of the profile.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
need_command openssl
use_s3
make_set --classes 1 --files 5
s3 put "$BUCKET" "$SRC"
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$T/own.key" -out "$T/own.pem" -days 2 -subj /CN=localhost \
    -addext "subjectAltName=DNS:localhost" 2>/dev/null
port=$(free_port)
cat >"$T/tls.conf" <<CONF
pid $T/tls.pid;
daemon off;
error_log $T/log/tls.error;
events {}
http {
    access_log off;
    client_body_temp_path $T/tls-body;
    proxy_temp_path $T/tls-proxy;
    fastcgi_temp_path $T/tls-fastcgi;
    uwsgi_temp_path $T/tls-uwsgi;
    scgi_temp_path $T/tls-scgi;
    server {
        listen 127.0.0.1:$port ssl;
        ssl_certificate $T/own.pem;
        ssl_certificate_key $T/own.key;
        location / {
            proxy_pass $MOTO_URL;
            proxy_set_header Host \$http_host;
        }
    }
}
CONF
nginx -p "$T" -c "$T/tls.conf" 2>>"$T/log/tls.error" &
on_exit "kill $!"
until_true 20 curl -sk -o "$T/up" "https://localhost:$port/" || fail "nginx does not answer"
cat >"$T/config" <<INI
[profile private]
region = us-east-1
endpoint_url = https://localhost:$port
ca_bundle = $T/own.pem
INI
unset AWS_REGION AWS_CA_BUNDLE
export AWS_ENDPOINT_URL=https://localhost:$port AWS_CONFIG_FILE=$T/config
refused 1 "give the authority that signed it with --ca-file" sampan mount "s3://$BUCKET/" "$MNT" --cache "ssd:$CACHE=1GiB"
AWS_CA_BUNDLE=$T/none.pem refused 3 "AWS_CA_BUNDLE: $T/none.pem: No such file" \
    sampan mount "s3://$BUCKET/" "$MNT" --cache "ssd:$CACHE=1GiB"
nothing_left
AWS_CA_BUNDLE=$T/own.pem mount_set "s3://$BUCKET/"
same_bytes "$SRC" "$MNT"
unmount
unset AWS_ENDPOINT_URL
AWS_PROFILE=private mount_set "s3://$BUCKET/" --cache "ssd:$T/cache2=1GiB"
same_bytes "$SRC" "$MNT"
unmount
sed -i 's/own.pem/gone.pem/' "$T/config"
AWS_PROFILE=private refused 3 "ca_bundle: $T/gone.pem: No such file" sampan scan "s3://$BUCKET/"

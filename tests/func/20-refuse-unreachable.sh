#!/usr/bin/env bash
# A host name that does not resolve, a closed port, a server without TLS, an unknown authority: soon and clear.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
export AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b
mount() { sampan mount s3://b/ "$MNT" --cache "ssd:$CACHE=1GiB" --endpoint "$1"; }
port=$(free_port)
refused 1 "resolve|name" mount http://no-such-host.invalid:9000
nothing_left
refused 1 "connect|refused" mount "http://127.0.0.1:$port"
nothing_left
make_set --classes 1 --files 1
start_nginx
refused 1 "TLS|SSL" mount "https://127.0.0.1:$HTTP_PORT"
nothing_left

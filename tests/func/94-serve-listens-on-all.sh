#!/usr/bin/env bash
# ":PORT" is every address, of IPv6 as of IPv4; a token is wanted there.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
make_set --classes 1 --files 1
mount_set "file://$SRC"
refused 4 "--no-auth" sampan serve --state "$T/serve" --listen :0 --no-auth
refused 4 "--no-auth" sampan serve --state "$T/serve" --listen "[::]:0" --no-auth
start_serve --listen :0
curl -sSf --max-time 60 "http://127.0.0.1:$PORT/healthz" >"$T/said"
if grep -qs "^0*1 .* lo$" /proc/net/if_inet6; then
    curl -sSf --max-time 60 "http://[::1]:$PORT/healthz" >"$T/said" || fail "IPv6 is not heard"
fi
stop_serve
unmount
nothing_left

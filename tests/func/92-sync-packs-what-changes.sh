#!/usr/bin/env bash
# A sample that is a pack of its own, and is replaced while it is read from where there are no ETags, is packed as it is then: not
# half old and half new.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/servers/start.sh"
mkdir -p "$SRC"
head -c 21000000 /dev/zero | tr '\0' A >"$SRC/large"
start_nginx
start_proxy "$HTTP_URL"
pack() { "$S" sync "$PROXY_URL/" "file://$T/packed" --pack 8MiB --json >"$T/out" 2>"$T/err"; }
refused_range() { grep -q '^GET /large bytes=.* 503 ' "$T/log/proxy.access"; }
faults "status=503 key=large range after=1" "etag="
pack &
packing=$!
until_true 20 refused_range || fail "it is not read in pieces: $(cat "$T/log/proxy.access")"
tr A B <"$SRC/large" >"$T/new"
touch -d '1 hour ago' "$T/new"
mv "$T/new" "$SRC/large"
faults "etag="
wait $packing || fail "$(cat "$T/err")"
cmp "$(find "$T/packed" -type f -size +20000k)" "$SRC/large" || fail "the pack is of both"

#!/usr/bin/env bash
# --connections holds exactly, however many readers ask at once.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 40 --size 20000
start_nginx
start_proxy "$HTTP_URL"
mount_set "$PROXY_URL/" --connections 4
faults "latency=20ms key=.bin"
find "$MNT" -type f -print0 | xargs -0 -P 16 -n 2 cat >/dev/null &
reader=$!
most=0
while kill -0 $reader 2>/dev/null; do
    now=$(ss -Htn state established "( dport = :${PROXY_URL##*:} )" | wc -l)
    [ "$now" -le "$most" ] || most=$now
done
echo "most connections: $most"
at_most "connections" "$most" 4
at_most "in flight" "$(status fetch.in_flight_max)" 4
same_bytes "$SRC" "$MNT"
unmount

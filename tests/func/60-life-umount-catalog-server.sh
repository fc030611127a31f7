#!/usr/bin/env bash
# A mount whose version comes from another machine ends at once while that machine is silent, or in trouble.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 3
mkdir -p "$T/site/v1/catalog"
sampan scan "file://$SRC" -o "$T/site/v1/catalog/current" --quiet
SRC=$T/site start_nginx
start_proxy "$HTTP_URL"
for fault in stall-head status=503; do
    faults ""
    mount_set "file://$SRC" --catalog "$PROXY_URL/v1/catalog/current" --refresh 1s --no-keeper
    faults "$fault"
    sleep 3 # its refresh asks: one after the other, 30 s each where nothing is answered
    unmount
done

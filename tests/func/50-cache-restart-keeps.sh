#!/usr/bin/env bash
# A new mount on the same cache folder fetches no sample again, by the store's own log.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 3 --files 20
start_nginx
mount_set "$HTTP_URL/"
warm_all
unmount
: >"$T/log/nginx.access"
mount_set "$HTTP_URL/"
expect "cached samples after the restart" "$(status cache.samples)" 60
drop_pages
same_bytes "$SRC" "$MNT"
expect "samples fetched again" "$(grep -c 'GET /.*\.bin' "$T/log/nginx.access" || true)" 0
kill -9 "$(daemon_pid)"
unmount_quietly "$MNT"
mount_set "$HTTP_URL/"
same_bytes "$SRC" "$MNT"
expect "samples fetched after kill -9" "$(grep -c 'GET /.*\.bin' "$T/log/nginx.access" || true)" 0
unmount

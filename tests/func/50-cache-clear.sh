#!/usr/bin/env bash
# clear drops the local copies and the kernel's pages; the data stays in the store and is fetched anew.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 10
start_nginx
mount_set "$HTTP_URL/"
warm_all
sampan clear "$MNT" class-000 || sampan clear "$MNT" "$MNT/class-000"
expect "samples left" "$(status cache.samples)" 10
: >"$T/log/nginx.access"
same_bytes "$SRC" "$MNT"
expect "samples fetched anew" "$(grep -o 'GET /class-00./[0-9]*\.bin' "$T/log/nginx.access" | sort -u | wc -l)" 10
sampan clear "$MNT"
expect "samples after a full clear" "$(status cache.samples)" 0
same_bytes "$SRC" "$MNT"
unmount
# The folder that another set has filled is refused; cleared, as the refusal says, it is free.
mkdir "$T/other"
echo other >"$T/other/sample"
refused 2 "holds the cache of another set.*clear that one" sampan mount "file://$T/other" "$MNT" --cache "ssd:$CACHE=100MiB"
sampan clear "$CACHE"
mount_set "file://$T/other"
same_tree "$T/other" "$MNT"
unmount

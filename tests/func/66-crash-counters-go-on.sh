#!/usr/bin/env bash
# After kill -9 the counters go on from where they were, nothing cached is fetched again (the store's log says
# so), and the page cache stays valid: a hot reader reaches nobody.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 3 --files 30 --size 30000
start_nginx
mount_set "$HTTP_URL/"
warm_all
drop_pages
same_bytes "$SRC" "$MNT"
reads=$(status reads.total) bytes=$(status reads.bytes) kernel=$(status kernel.reads)
requests=$(status fetch.requests)
gets() { grep -c "^GET /class" "$T/log/nginx.access"; }
asked=$(gets)
at_least "reads" "$reads" 90
for life in 1 2; do
    pid=$(daemon_pid)
    kill -9 "$pid"
    reborn() { [ "$(status pid 2>/dev/null)" != "$pid" ]; }
    until_true 20 reborn || fail "no new life"
    expect "restarts" "$(status restarts)" "$life"
    expect "reads" "$(status reads.total)" "$reads"
    expect "bytes" "$(status reads.bytes)" "$bytes"
    expect "fetch.requests" "$(status fetch.requests)" "$requests"
    expect "READs" "$(status kernel.reads)" "$kernel"
done
same_bytes "$SRC" "$MNT" # hot
expect "READs of a hot pass after two deaths" "$(status kernel.reads)" "$kernel"
drop_pages
same_bytes "$SRC" "$MNT"
at_least "READs after the pages were dropped" "$(status kernel.reads)" $((kernel + 90))
expect "GETs of objects" "$(gets)" "$asked"
unmount

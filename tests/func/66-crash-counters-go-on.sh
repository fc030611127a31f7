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
requests=$(status fetch.requests)
gets() { grep -c "^GET /class" "$T/log/nginx.access"; }
asked=$(gets)
at_least "reads" "$(status reads.total)" 90

lives=0
one_death() {
    local pid reads bytes kernel
    pid=$(daemon_pid) reads=$(status reads.total) bytes=$(status reads.bytes) kernel=$(status kernel.reads)
    kill -9 "$pid"
    lives=$((lives + 1))
    reborn() { [ "$(status pid 2>/dev/null)" != "$pid" ]; }
    until_true 20 reborn || fail "no new life"
    expect "restarts" "$(status restarts)" "$lives"
    expect "reads" "$(status reads.total)" "$reads"
    expect "bytes" "$(status reads.bytes)" "$bytes"
    expect "fetch.requests" "$(status fetch.requests)" "$requests"
    expect "READs" "$(status kernel.reads)" "$kernel"
}
hot_after_a_death() {
    local before
    one_death
    before=$(status kernel.reads)
    same_bytes "$SRC" "$MNT"
    echo "READs of a hot pass: $(($(status kernel.reads) - before))"
    [ "$(status kernel.reads)" = "$before" ]
}
one_death
in_one_of_five hot_after_a_death || fail "each death cost pages of a hot reader"
kernel=$(status kernel.reads)
drop_pages
same_bytes "$SRC" "$MNT"
at_least "READs after the pages were dropped" "$(status kernel.reads)" $((kernel + 90))
expect "GETs of objects" "$(gets)" "$asked"
unmount

#!/usr/bin/env bash
# A mount nobody reads uses no CPU to speak of (< 0.1 % over ten seconds) and sends no request.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set
start_nginx
mount_set "$HTTP_URL/" --sampler sequence
cat "$MNT"/*/* >"$T/x"
sampan status "$MNT" --json >"$T/s"
pid=$(daemon_pid)
ticks() { awk '{ print $14 + $15 }' "/proc/$pid/stat"; }
is_idle() {
    sleep 1
    : >"$T/log/nginx.access"
    local before used most=1
    before=$(ticks)
    sleep 10
    used=$(($(ticks) - before))
    echo "$used ticks in ten seconds, $(wc -l <"$T/log/nginx.access") requests"
    case "$S" in *asan*|*tsan*) most=1000 ;; esac
    [ "$used" -le $most ] && [ ! -s "$T/log/nginx.access" ]
}
in_one_of_five is_idle || fail "it works though nobody reads" # what was read may still be on its way to the disk
unmount

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
sleep 1
: >"$T/log/nginx.access"
before=$(ticks)
sleep 10
used=$(($(ticks) - before))
echo "$used ticks in ten seconds"
case "$S" in *asan*|*tsan*) ;; *) at_most "ticks" "$used" 1 ;; esac
expect "requests" "$(wc -l <"$T/log/nginx.access")" 0
unmount

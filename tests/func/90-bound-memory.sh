#!/usr/bin/env bash
# RssAnon + RssShmem stay below --memory while far more than that is read, and status tells the truth.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 100 --size 900000..1100000
mount_set "file://$SRC" --memory 96MiB
pid=$(daemon_pid)
resident() { awk '/^RssAnon|^RssShmem/ { s += $2 } END { print s * 1024 }' "/proc/$pid/status"; }
find "$MNT" -type f -print0 | shuf -z --random-source=<(yes) | xargs -0 -P 8 -n 3 cat >/dev/null &
reader=$!
most=0
while kill -0 $reader 2>/dev/null; do
    now=$(resident)
    [ "$now" -le "$most" ] || most=$now
    sleep 0.05
done
echo "most resident: $most bytes"
case "$S" in *asan*|*tsan*) ;; *) at_most "resident" "$most" $((96 << 20)) ;; esac
expect "limit in status" "$(status memory.limit)" $((96 << 20))
unmount

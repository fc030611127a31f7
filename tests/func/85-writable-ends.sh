#!/usr/bin/env bash
# umount and SIGTERM store what is owed first; umount --lazy says what stays behind, and the next mount stores it.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
use_writable_store # use_s3 behind the proxy
mount_writable "$STORE/a" --commit background
for i in $(seq 30); do echo "$i" >"$MNT/$i"; done
unmount
expect "after umount" "$(keys | grep -c ^a/)" 30
mount_writable "$STORE/b" --commit background --cache "ssd:$T/cache-b=1GiB"
for i in $(seq 30); do echo "$i" >"$MNT/$i"; done
kill -TERM "$(daemon_pid)"
until_true 30 no_daemon || fail "it outlives SIGTERM"
expect "after SIGTERM" "$(keys | grep -c ^b/)" 30
mount_writable "$STORE/c" --commit background --cache "ssd:$T/cache-c=1GiB"
ls "$MNT" >"$T/looked"
faults "latency=2500ms"
echo late >"$MNT/late"
sampan umount "$MNT" 2>"$T/said"
grep -q "waiting: 1 file of 5" "$T/said" || fail "it does not say what it waits for: $(cat "$T/said")"
expect "after a slow umount" "$(stored cat c/late)" late
faults
mount_writable "$STORE/d" --commit background --cache "ssd:$T/cache-d=1GiB"
ls "$MNT" >"$T/looked"
faults "status=503"
echo kept >"$MNT/kept"
sampan umount --lazy "$MNT" 2>"$T/said"
grep -q "1 file of 5.* not stored yet.*stored when" "$T/said" || fail "it does not say what stays: $(cat "$T/said")"
kill -TERM $(daemons) 2>/dev/null || true
kill -TERM $(daemons) 2>/dev/null || true
until_true 45 no_daemon || fail "it does not end"
faults
mount_writable "$STORE/d" --commit background --cache "ssd:$T/cache-d=1GiB"
expect "it is there" "$(cat "$MNT/kept")" kept
unmount
expect "and stored" "$(stored cat d/kept)" kept

#!/usr/bin/env bash
# Out of descriptors: reads that can be served are right, the others fail cleanly; the owner lives, and all
# is well once there are some again.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/broken-disk.sh"
need_mount
need_command prlimit
make_set --classes 2 --files 40 --size 20000..200000
mount_set "file://$SRC"
pid=$(daemon_pid)
open_now=$(find "/proc/$pid/fd" -mindepth 1 | wc -l)
soft=$(prlimit --pid "$pid" --nofile --output SOFT --noheadings)
prlimit --pid "$pid" --nofile="$((open_now + 1))":
drop_pages
"$VERIFY" --seconds 2 --threads 4 --drop "$SRC" "$MNT" >"$T/starved" 2>/dev/null || true
cat "$T/starved"
expect "wrong bytes" "$(field mismatches <"$T/starved")" 0
expect "hung calls" "$(field hung <"$T/starved")" 0
prlimit --pid "$pid" --nofile="$soft":
served_right 2
expect "daemon" "$(daemon_pid)" "$pid"
unmount
# Too few to begin with: a clean refusal, or a mount that serves.
for n in 4 16 26; do
    if timeout 600 prlimit --nofile="$n": "$S" mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB" --no-keeper 2>"$T/err"; then
        "$VERIFY" --seconds 1 --threads 2 --drop "$SRC" "$MNT" >"$T/starved" 2>/dev/null || true
        expect "wrong bytes with $n descriptors" "$(field mismatches <"$T/starved")" 0
        sampan umount "$MNT" 2>"$T/err" || sampan umount --lazy "$MNT"
        until_true 20 no_daemon
    else
        expect "lines of error with $n descriptors: $(cat "$T/err")" "$(grep -c . "$T/err")" 1
        nothing_left
    fi
done
nothing_left

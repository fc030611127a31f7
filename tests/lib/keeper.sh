# Sourced after common.sh by tests that kill what serves a mount.
#
#   life, keeper            pids of the daemon that serves $MNT, and of its keeper
#   kill_life               kill -9 of the daemon; returns when the next one serves
#   start_readers           verifying readers over $SRC and $MNT, until readers_ok
#   readers_ok              stops them: no error (EINTR included), no wrong byte, no hung call
#   a_notification_waits PID    for a lock of the kernel: a word of this daemon, or of its helper
#   abort_at_exit           $MNT's connection is aborted at the end: a mount that hangs holds all who wait for it
#   start_holder, revive    a third process that has the descriptors of $MNT (root); it revives the mount with them

life() {
    status pid
}

keeper() {
    status keeper_pid
}

restarts_are() { # N
    [ "$(status restarts)" = "$1" ]
}

kill_life() {
    local before pid
    before=$(status restarts)
    pid=$(life)
    kill -9 "$pid"
    until_true 20 restarts_are $((before + 1)) || fail "no new daemon after $pid was killed"
    ! [ -d "/proc/$pid" ] || grep -q '^State:.*Z' "/proc/$pid/status" || fail "$pid is still there"
}

a_notification_waits() { # PID
    local task
    for task in "/proc/$1"/task/* $(pgrep -P "$1" | sed 's|^|/proc/|'); do
        ! grep -qs '^State:.*D' "$task/status" || ! grep -qsE 'fuse-(news|helper)' "$task/comm" "$task/cmdline" || return 0
    done
    return 1
}

abort_connection() { # MINOR
    mkdir -p "$T/connections"
    mount -t fusectl none "$T/connections" || return 0
    [ ! -e "$T/connections/$1/abort" ] || echo 1 >"$T/connections/$1/abort"
    umount "$T/connections"
}

abort_at_exit() {
    on_exit "abort_connection $(awk -v m="$MNT" '$5 == m { sub(".*:", "", $3); print $3 }' /proc/self/mountinfo)"
}

start_readers() { # [OPTIONS of verify-reader]
    "$SAMPAN_BUILD/tools/verify-reader" --threads 4 --seconds 100 --drop --hung-s 30 "$@" "$SRC" "$MNT" \
        >"$T/readers.json" 2>"$T/log/readers" &
    READERS=$!
    on_exit "kill $READERS"
}

readers_ok() {
    local code=0
    kill -INT "$READERS"
    wait "$READERS" || code=$?
    cat "$T/readers.json" "$T/log/readers"
    [ "$code" = 0 ] || fail "a reader saw an error or a wrong byte"
}

start_holder() {
    mkfifo "$T/go"
    "$PYTHON" "$SAMPAN_TESTS/lib/holder.py" "$CACHE/control.sock" "$S" "$T/held" "$T/go" &
    HOLDER=$!
    on_exit "kill $HOLDER"
    until_true 20 test -f "$T/held" || fail "the holder got no descriptors"
}

revive() {
    echo >"$T/go"
    wait "$HOLDER" || fail "revive failed"
}

# Sourced after common.sh by tests that kill what serves a mount.
#
#   life, keeper            pids of the daemon that serves $MNT, and of its keeper
#   kill_life               kill -9 of the daemon; returns when the next one serves
#   hang                    the daemon stops (SAMPAN_KEEPER_HANG_MS is short); returns when the next one serves
#   pause PID…              SIGSTOP, SIGCONT after $PAUSE seconds
#   with_more_patience CMD  CMD with keepers that take for hung what says nothing for 1.5 s; where it fails, as what waits so
#                           long for a processor is killed too, with more patience; a pause is always longer
#   start_readers           verifying readers over $SRC and $MNT, until readers_ok
#   readers_ok              stops them: no error (EINTR included), no wrong byte, no hung call
#   wait_while_telling KEY  (of a folder, behind the proxy) returns while the kernel is told of a new file in it, which
#                           waits for a lock that $remover has, who waits for the daemon
#   remover_is_told         the remover waits no longer, and was told of an error
#   mount_for_a_holder      a small set, mounted, whose descriptors are to be given away (root)
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

hang() {
    local daemon before
    daemon=$(life) before=$(status restarts)
    kill -STOP "$daemon"
    replaced() { ! [ -d "/proc/$daemon" ]; }
    restarted() { [ "$(status restarts)" -gt "$before" ]; }
    until_true 20 replaced || fail "a daemon that hangs is left in place"
    until_true 20 restarted || fail "not restarted"
    expect "why" "$(status last_end)" "it hung, and was killed"
}

with_more_patience() { # CMD…
    local ms
    for ms in 1500 8500 30500; do
        export SAMPAN_KEEPER_HANG_MS=$ms
        PAUSE=$([ -n "${SLOW:-}" ] && echo 60 || echo $((ms / 1000 + 1)))
        ! "$@" || return 0
    done
    return 1
}

pause() { # PID…
    kill -STOP "$@"
    sleep "$PAUSE"
    kill -CONT "$@"
}

a_notification_waits() { # PID: of this daemon, or of its helper
    local task
    for task in "/proc/$1"/task/* $(pgrep -P "$1" | sed 's|^|/proc/|'); do
        ! grep -qs '^State:.*D' "$task/status" || ! grep -qsE 'fuse-(news|helper)' "$task/comm" "$task/cmdline" || return 0
    done
    return 1
}

# Only while it is mounted: the number of one that has ended is the next test's.
abort_connection() { # MOUNT
    local minor
    minor=$(awk -v m="$1" '$5 == m { sub(".*:", "", $3); print $3 }' /proc/self/mountinfo)
    [ -n "$minor" ] || return 0
    mkdir -p "$T/connections"
    mount -t fusectl none "$T/connections" || return 0
    [ ! -e "$T/connections/$minor/abort" ] || echo 1 >"$T/connections/$minor/abort"
    umount "$T/connections"
}

wait_while_telling() { # KEY
    local folder="$MNT/${1##*/}"
    # A mount that hangs would hold all who wait for it.
    on_exit "abort_connection '$MNT'"
    mkdir "$folder"
    echo here >"$folder/looked-at"
    echo here >"$folder/gone"
    exec 9<"$folder/looked-at" # by its name it might have to be looked up, behind the remover
    # Who removes a name holds its folder until the store has answered.
    faults "stall-head key=$1/gone"
    rm "$folder/gone" 2>"$T/remover" &
    remover=$!
    removing() { [ "$(status requests.waiting)" -ge 1 ]; }
    until_true 20 removing || fail "the remover does not wait"
    echo there | stored put-bytes "$1/new"
    telling() {
        stat -L /proc/self/fd/9 >"$T/stat" # has the folder listed anew
        a_notification_waits "$(life)"
    }
    until_true 20 telling || fail "no notification waits"
    exec 9<&-
}

remover_is_told() {
    told() { ! kill -0 "$remover" 2>/dev/null; }
    until_true 5 told || fail "the remover waits still"
    ! wait "$remover" || fail "the remover saw no error"
}

start_readers() { # [OPTIONS of verify-reader]
    "$SAMPAN_BUILD/tools/verify-reader" --threads 4 --seconds 3000 --drop --hung-s 300 "$@" "$SRC" "$MNT" \
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

mount_for_a_holder() {
    need_mount
    need_root "descriptors are given to root alone"
    make_set --classes 2 --files 10
    mount_set "file://$SRC"
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
    revived() { ! kill -0 "$HOLDER" 2>/dev/null; }
    until_true 20 revived || fail "revive does not return"
    wait "$HOLDER" || fail "revive failed"
}

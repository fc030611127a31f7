#!/usr/bin/env bash
# A daemon that answers nothing (SIGSTOP) is killed and replaced; readers wait and see no error. Both stopped, 2 s (a
# minute with SLOW=1), harms nothing.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
make_set --classes 2 --files 10
export SAMPAN_KEEPER_HANG_MS=600
mount_set "file://$SRC"
start_readers ${SLOW:+--seconds 300 --hung-s 100} # no call returns while both are stopped
daemon=$(life)
kill -STOP "$daemon"
replaced() { ! [ -d "/proc/$daemon" ]; }
until_true 20 replaced || fail "a daemon that hangs is left in place"
until_true 20 restarts_are 1 || fail "not restarted"
expect "why" "$(status last_end)" "it hung, and was killed"
keeper=$(keeper)
daemon=$(life)
kill -STOP "$keeper" "$daemon" # a machine that sleeps: nobody hung
sleep "$([ -n "${SLOW:-}" ] && echo 60 || echo 2)"
kill -CONT "$keeper" "$daemon"
expect "restarts" "$(status restarts)" 1
readers_ok
unmount
nothing_left

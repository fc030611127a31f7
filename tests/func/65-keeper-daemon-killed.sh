#!/usr/bin/env bash
# kill -9 of the daemon is a pause: readers see no error and no wrong byte, and status counts it.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
make_set --classes 2 --files 20
mount_set "file://$SRC"
keeper=$(keeper)
expect "restarts" "$(status restarts)" 0
at_least "keeper" "$keeper" 2
start_readers
for i in 1 2 3 4; do
    kill_life
done
expect "the keeper stays" "$(keeper)" "$keeper"
expect "restarts" "$(status restarts)" 4
status last_end | has "killed from outside" || fail "status does not say how it ended: $(status last_end)"
expect "state" "$(status state)" ready
readers_ok
unmount
nothing_left

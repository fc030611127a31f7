#!/usr/bin/env bash
# The cache disk is full to the last byte, while files are written, also through mappings, and while the daemon is killed:
# who is not told ENOSPC has what he wrote, and what the mount shows is what gets stored when there is room again.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
need_root "mounts a small disk"
mkdir -p "$T/disk" "$SRC"
mount -t tmpfs -o size=12m none "$T/disk" 2>/dev/null || skip "a small disk cannot be mounted here"
on_exit "umount '$T/disk'"
seed=${SEED:-$RANDOM}
echo "seed $seed (SEED= repeats it)"

kill_now_and_then() { # not oftener: uploads wait a moment after each
    local pid kills=0
    until [ -e "$T/over" ]; do
        sleep 0.8
        pid=$(status pid 2>/dev/null || echo 0)
        [ "$pid" = 0 ] || ! kill -9 "$pid" 2>/dev/null || [ $((++kills)) -lt 3 ] || : >"$T/killed"
    done
}

round() { # COMMIT OPS [FILE: until that is there; killed meanwhile]
    local killer=
    echo "--- $*"
    rm -rf "${SRC:?}"/*
    mount_writable "file://$SRC" --commit "$1" --cache "ssd:$T/disk/cache=1GiB"
    if [ -n "${3:-}" ]; then
        kill_now_and_then &
        killer=$!
        on_exit ": >'$T/over'; wait $killer"
    fi
    timeout 600 "$PYTHON" "$SAMPAN_TESTS/lib/full_disk.py" "$S" "$MNT" "$SRC" "$T/disk" "$seed" "${@:2}" || fail "$*, seed $seed"
    if [ -n "$killer" ]; then
        : >"$T/over"
        wait $killer
        expect "errors now" "$(status state)" ready
    fi
    unmount
    rm -rf "$T/disk/cache"
}
round close 400
round background 400
[ ! -x "$SAMPAN_BUILD/bin/sampan-keeper" ] || round background 1000 "$T/killed"
nothing_left

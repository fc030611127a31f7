#!/usr/bin/env bash
# Keeper and daemon killed at once while the kernel is told of another writer's change, and that waits for a lock
# whose holder waits for them: one `sampan mount` heals it, and `sampan umount` ends it.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_root "others may not have the kernel fail what waits"
need_mount
[ -x "$SAMPAN_BUILD/bin/sampan-keeper" ] || skip "no keeper here"
use_writable_store # use_s3 behind the proxy
for cure in mount umount; do
    mount_writable "$STORE/out" --refresh 200ms
    wait_while_telling "out/$cure"
    daemon=$(life) keeper=$(keeper)
    kill -STOP "$daemon"
    kill -9 "$keeper" "$daemon"
    until_true 10 no_daemon
    ! timeout 2 stat -f "$MNT" >"$T/stat" 2>&1 || fail "a mount without server answers"
    expect "state" "$(sampan status --json | field state)" dead
    faults
    if [ $cure = mount ]; then
        sampan mount "$STORE/out" "$MNT" --cache "ssd:$CACHE=1GiB" --writable --free-space 0
        expect "one mount there" "$(grep -Fc " ${MNT// /\\040} " /proc/self/mountinfo)" 1
        expect "the folder" "$(cd "$MNT/$cure" && echo *)" "looked-at new"
        unmount
    else
        sampan umount --lazy "$MNT"
    fi
    remover_is_told
    nothing_left
done

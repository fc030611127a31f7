#!/usr/bin/env bash
# A first start that is killed, at whatever moment, leaves no mount, no process and no file; or else it is a mount.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
make_set --classes 1 --files 5
kept=0
for i in 0 1 2 3 4 5 6 7; do
    code=0
    "$S" mount "file://$SRC" "$MNT" --cache "ssd:$CACHE/made=1GiB" 2>"$T/err" &
    mount=$!
    "$PYTHON" -c "import time; time.sleep($i * 0.01)"
    victim=$(pgrep -P $mount || true) # the keeper, or what is to become it
    [ $((i % 2)) = 0 ] || victim=$(pgrep -P "${victim:-0}" || true)
    [ -z "$victim" ] || kill -9 $victim || true
    wait $mount || code=$?
    cat "$T/err"
    if [ $code = 0 ]; then
        kept=$((kept + 1))
        same_bytes "$SRC" "$MNT"
        sampan umount "$MNT"
    fi
    ! is_mounted "$MNT" || fail "round $i: a mount was left behind"
    rm -rf "$CACHE/made"
done
echo "$kept of 8 were mounts"
nothing_left

#!/usr/bin/env bash
# HDFS shows what a connection that broke has brought as if it were the whole file. So nothing is written under its own
# name: a killed sync leaves the old object as it was, no listing sees what it left, and a later sync removes that.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/servers/start.sh"
need_mount
stalled() { compgen -G "$SRC/set/.sampan-put-*" >/dev/null; }
left() { find "$SRC/set" -name '.sampan-put-*' | wc -l; }

killed_in_the_middle() { # OPTIONS of the server…
    SRC="$T/hdfs$#"
    mkdir -p "$SRC/set" "$T/new"
    echo old >"$SRC/set/sample"
    head -c 100000 /dev/urandom >"$T/new/sample"
    touch "$T/stall"
    start_webhdfs --stall "$T/stall" "$@"
    local uri="webhdfs://127.0.0.1:$HDFS_PORT/set"
    "$SAMPAN" sync "file://$T/new" "$uri" --quiet &
    local pid=$!
    until_true 60 stalled || fail "nothing was sent"
    kill -9 $pid
    wait $pid || true
    rm "$T/stall"
    expect "the object of a killed sync" "$(cat "$SRC/set/sample")" old
    expect "samples of a scan" "$(sampan scan "$uri" -o "$T/catalog$#" --json | field samples)" 1
    mount_set "$uri" --cache "ssd:$T/cache$#=1GiB"
    expect "the mount's" "$(ls -A "$MNT")" sample
    unmount

    sampan sync "file://$T/new" "$uri" --quiet
    cmp "$T/new/sample" "$SRC/set/sample" || fail "not what was sent"
    expect "left, an hour old" "$(left)" 1
    find "$SRC/set" -name '.sampan-put-*' -exec touch -d '2 days ago' {} +
    sampan sync "file://$T/new" "$uri" --quiet --dry
    expect "left by a run that only says what it would do" "$(left)" 1
    sampan sync "file://$T/new" "$uri" --quiet
    expect "left, two days old" "$(left)" 0
}

killed_in_the_middle
killed_in_the_middle --no-batch
nothing_left

# A rename that was done and whose answer was lost is done, and where a rename does not replace it takes nothing away.
for how in "" --no-batch; do
    SRC="$T/lost$how"
    mkdir "$SRC"
    # shellcheck disable=SC2086
    start_webhdfs $how --lose "$T/lose"
    touch "$T/lose"
    "$SAMPAN" sync "file://$T/new" "webhdfs://127.0.0.1:$HDFS_PORT/set" --quiet || fail "it was copied"
    [ ! -e "$T/lose" ] || fail "no answer was lost"
    cmp "$T/new/sample" "$SRC/set/sample" || fail "the object is gone"
    stop_webhdfs
done

#!/usr/bin/env bash
# SIGTERM, SIGINT or SIGKILL at the n-th call of a mount or an umount: it is mounted and serves, or nothing is left of it.
# A few n of each kind; SLOW=1 tries every one (minutes). With WRITABLE the mount can be written, and what was written
# before its end is stored, at the latest by the next mount with that cache.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/broken-disk.sh"
need_mount
need_tracing
CALLS=open,write,sync,thread,rename,unlink,make,size,stat,lock
make_set --classes 1 --files 4
mkdir -p "$T/cache"
OPTIONS=(--quiet ${WRITABLE:+--writable --commit background --free-space 0})
meddle_mount() { # OPTIONS… : a mount whose every process is watched; $CODE is the end of `mount` itself
    local ended=
    CACHE="$T/cache/$RANDOM$RANDOM"
    : >"$T/starting"
    "$MEDDLE" --calls "$CALLS" --timeout 600 "$@" -- "$S" mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB" "${OPTIONS[@]}" \
        2>"$T/meddle.err" &
    WATCHER=$!
    settled() { ! [ -d "/proc/$WATCHER" ] || { is_mounted "$MNT" && registered; }; }
    registered() { sampan status "$MNT" --json >"$T/told" 2>"$T/told.err"; }
    until_true 40 settled || ended=no
    rm -f "$T/starting"
    [ -z "$ended" ] || fail "$*: neither mounted nor over: $(cat "$T/meddle.err")"
}
WRITTEN=0
leave() { # a file, if that can be
    [ -z "${WRITABLE:-}" ] || echo "$((++WRITTEN)) $CACHE" >"$MNT/left-$WRITTEN"
}
stored() { # WHAT : what was left is in the store, or in the cache's stage and then there
    [ "$WRITTEN" -gt 0 ] || return 0
    if ! [ -s "$SRC/left-$WRITTEN" ]; then
        sampan mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB" "${OPTIONS[@]}"
        sampan umount "$MNT"
    fi
    expect "$1: what was written" "$(cat "$SRC/left-$WRITTEN")" "$WRITTEN $CACHE"
}
over() { # WHAT : serves, then goes; or has gone already
    if is_mounted "$MNT" && registered; then
        same_bytes "$SRC" "$MNT" || fail "$1: not served"
        leave
        sampan umount "$MNT" || ! is_mounted "$MNT" || fail "$1: not unmounted"
        stored "$1"
        SERVED=$((SERVED + 1))
    fi
    wait "$WATCHER" || fail "$1: $(tail -3 "$T/meddle.err")"
    ! is_mounted "$MNT" || fail "$1: a mount is left"
    until_true 20 no_daemon || fail "$1: a process is left: $(daemons) $(keepers)"
    [ -z "$(find "$SAMPAN_RUN_DIR" -type f ! -name '*.lock')" ] || fail "$1: still registered: $(ls "$SAMPAN_RUN_DIR")"
}
seen() {
    grep '^meddle: {' "$T/meddle.err" | sed 's/^meddle: //' | field seen
}
points() { # TOTAL N
    if [ -n "${SLOW:-}" ]; then seq "$1"; else shuf -i "1-$1" -n "$2" --random-source=<(yes "$SAMPAN_TEST_TOKEN"); fi
}

SERVED=0
meddle_mount --nth 0 --while "$T/starting"
over "without a signal"
total=$(seen)
for signal in TERM INT KILL; do
    for n in $(points $((total - total / 8)) 5); do # the last ones may be of who asks whether it serves
        meddle_mount --nth "$n" --while "$T/starting" --signal "$signal"
        over "SIG$signal at call $n of a mount ($(grep -o '"hit":"[^"]*"' "$T/meddle.err" || true))"
    done
done
echo "$SERVED of the mounts served"

# The umount, and what serves while it is unmounted.
for signal in TERM INT KILL; do
    rm -f "$T/ending"
    meddle_mount --nth "$((RANDOM % 12 + 1))" --while "$T/ending" --signal "$signal"
    leave
    : >"$T/ending"
    sampan umount "$MNT" 2>"$T/umount.err" || true
    over "SIG$signal to what is unmounted"
    stored "SIG$signal to what is unmounted"
    CACHE="$T/cache/umount-$signal"
    sampan mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB" "${OPTIONS[@]}"
    leave
    "$MEDDLE" --calls "$CALLS" --nth "$((RANDOM % 20 + 1))" --signal "$signal" --timeout 600 -- "$S" umount "$MNT" 2>"$T/umount.err" || true
    WATCHER=
    [ -z "${WRITABLE:-}" ] || ! is_mounted "$MNT" || sampan flush "$MNT" 2>>"$T/umount.err" || ! is_mounted "$MNT" || fail "it does not flush"
    ! is_mounted "$MNT" || same_bytes "$SRC" "$MNT"
    ! is_mounted "$MNT" || sampan umount "$MNT" || ! is_mounted "$MNT" || fail "a second umount fails"
    until_true 20 no_daemon || fail "SIG$signal to umount: a process is left"
    stored "SIG$signal to umount"
done
nothing_left

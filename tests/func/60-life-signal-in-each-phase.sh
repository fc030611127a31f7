#!/usr/bin/env bash
# SIGTERM, SIGINT or SIGKILL at the n-th call of a mount or an umount: it is mounted and serves, or nothing is left of it.
# A few n of each kind; SLOW=1 tries every one (minutes).
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/broken-disk.sh"
need_mount
need_tracing
CALLS=open,write,sync,thread,rename,unlink,make,size,stat,lock
make_set --classes 1 --files 4
mkdir -p "$T/cache"
meddle_mount() { # OPTIONS… : a mount whose every process is watched; $CODE is the end of `mount` itself
    CACHE="$T/cache/$RANDOM$RANDOM"
    "$MEDDLE" --calls "$CALLS" --timeout 60 "$@" -- "$S" mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB" --quiet \
        2>"$T/meddle.err" &
    WATCHER=$!
    settled() { ! [ -d "/proc/$WATCHER" ] || { is_mounted "$MNT" && registered; }; }
    registered() { sampan status "$MNT" --json >"$T/told" 2>"$T/told.err"; }
    until_true 40 settled || fail "$*: neither mounted nor over: $(cat "$T/meddle.err")"
}
over() { # WHAT : serves, then goes; or has gone already
    if is_mounted "$MNT" && registered; then
        same_bytes "$SRC" "$MNT" || fail "$1: not served"
        sampan umount "$MNT" || ! is_mounted "$MNT" || fail "$1: not unmounted"
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
meddle_mount --nth 0
over "without a signal"
total=$(seen)
for signal in TERM INT KILL; do
    for n in $(points $((total - total / 4)) 5); do # the last quarter is the umount's
        meddle_mount --nth "$n" --signal "$signal"
        over "SIG$signal at call $n of a mount ($(grep -o '"hit":"[^"]*"' "$T/meddle.err" || true))"
    done
done
echo "$SERVED of the mounts served"

# The umount, and what serves while it is unmounted.
for signal in TERM INT KILL; do
    rm -f "$T/ending"
    meddle_mount --nth "$((RANDOM % 12 + 1))" --while "$T/ending" --signal "$signal"
    : >"$T/ending"
    sampan umount "$MNT" 2>"$T/umount.err" || true
    over "SIG$signal to what is unmounted"
    CACHE="$T/cache/umount-$signal"
    sampan mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB" --quiet
    "$MEDDLE" --calls "$CALLS" --nth "$((RANDOM % 20 + 1))" --signal "$signal" --timeout 40 -- "$S" umount "$MNT" 2>"$T/umount.err" || true
    WATCHER=
    ! is_mounted "$MNT" || same_bytes "$SRC" "$MNT"
    ! is_mounted "$MNT" || sampan umount "$MNT" || ! is_mounted "$MNT" || fail "a second umount fails"
    until_true 20 no_daemon || fail "SIG$signal to umount: a process is left"
done
nothing_left

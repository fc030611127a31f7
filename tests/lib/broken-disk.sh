# Sourced after common.sh by scripts whose cache disk breaks while it serves.
#
#   mount_breakable CALLS ERROR [OPTIONS…]  mounts file://$SRC at $MNT; while the disk is broken the
#                        calls of these kinds (tests/torture/meddle.c) about $CACHE fail with ERROR
#   break_disk, mend_disk   … from now on
#   only_files GLOB      before the mount: only files of such names break
#   served_right SECONDS verify-reader finds every byte right, pages dropped each time
MEDDLE="$SAMPAN_BUILD/torture/meddle"
VERIFY="$SAMPAN_BUILD/tools/verify-reader"
meddle_args=()

only_files() {
    meddle_args+=(--name "$1")
}

need_tracing() {
    "$MEDDLE" --calls open --nth 0 -- true 2>/dev/null || skip "programs cannot be traced here"
}

mount_breakable() { # CALLS ERROR [OPTIONS…]
    local calls=$1 error=$2
    shift 2
    need_tracing
    mkdir -p "$CACHE"
    on_exit "unmount_quietly '$MNT'"
    "$MEDDLE" --below "$CACHE" "${meddle_args[@]}" --calls "$calls" --while "$T/broken" --fail "$error" --timeout 600 -- \
        "$S" mount "file://$SRC" "$MNT" --foreground --no-keeper --quiet --cache "ssd:$CACHE=1GiB" --free-space 0 "$@" \
        2>"$T/meddle.err" &
    MEDDLE_PID=$!
    until_true 30 is_mounted "$MNT" || fail "not mounted: $(cat "$T/meddle.err")"
    until_true 10 status pid >/dev/null || fail "no answer"
}

break_disk() {
    : >"$T/broken"
}

mend_disk() {
    rm -f "$T/broken"
}

# How many calls the broken disk has refused; after the unmount.
refusals() {
    wait "$MEDDLE_PID" || fail "$(tail -3 "$T/meddle.err")"
    grep '^meddle: {' "$T/meddle.err" | sed 's/^meddle: //' | field hits
}

served_right() { # SECONDS
    "$VERIFY" --seconds "$1" --threads 4 --drop "$SRC" "$MNT" || fail "not served right"
}

#!/usr/bin/env bash
# A disk that fails at start is a clean refusal that says what failed and leaves nothing behind; the next mount is good.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/broken-disk.sh"
need_mount
need_tracing
make_set --classes 2 --files 5
refuses() { # CALLS ERROR
    local code=0
    mkdir -p "$CACHE"
    timeout 600 "$MEDDLE" --below "$CACHE" --calls "$1" --nth 1 --sticky --fail "$2" -- "$S" mount "file://$SRC" "$MNT" \
        --cache "ssd:$CACHE=1GiB" 2>"$T/refused" || code=$?
    expect "meddle" "$code" 0
    grep -q '"end":"exit [1-9]"' "$T/refused" || fail "it did not refuse: $(cat "$T/refused")"
    expect "lines of error" "$(grep -vc '^meddle: {' "$T/refused")" 1
    grep -q '^sampan mount: ' "$T/refused" || fail "$(cat "$T/refused")"
    nothing_left
}
refuses write EIO
refuses size ENOSPC
refuses lock ENOLCK
grep -q "lock .*: No locks available" "$T/refused" || fail "who could not lock says: $(cat "$T/refused")"
rm -rf "$CACHE"
mount_set "file://$SRC"
served_right 1
unmount
refuses make EROFS
refuses open EIO
mount_set "file://$SRC" # of what was there
served_right 1
unmount
nothing_left

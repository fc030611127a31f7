#!/usr/bin/env bash
# Where /proc is not mounted (a bare chroot), mount says so, and leaves nothing behind.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
need_root "hides /proc"
make_set --classes 1 --files 2
without_proc() { timeout 60 unshare -m sh -c 'mount -t tmpfs none /proc && exec "$@"' sh "$@"; }
for keeper in "" --no-keeper; do
    # shellcheck disable=SC2086 # none is no word
    refused 1 "^sampan mount: /proc is not there" without_proc "$S" mount "file://$SRC" "$MNT" --cache "ssd:$CACHE/new=100MiB" $keeper
    [ ! -e "$CACHE/new" ] || fail "a folder is left"
    nothing_left
done

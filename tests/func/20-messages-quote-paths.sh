#!/usr/bin/env bash
# Commands that messages advise can be given to a shell as they stand, whatever the paths in them hold.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 2
MNT="$T/it's a; \$HOME & more"
advised() { # COMMAND : that of the last message, run by a shell
    local command
    command=$(sed -n "s/.*(\($1 '.*'\).*/\1/p" "$T/refused.err")
    [ -n "$command" ] || fail "no such command: $(cat "$T/refused.err")"
    (PATH="$(dirname "$S"):$PATH" && eval "$command") || fail "not to be run: $command"
}
refused 3 "does not exist" sampan mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB"
advised "mkdir -p"
[ -d "$MNT" ] || fail "the advice makes another folder: $(ls "$T")"
mount_set "file://$SRC"
refused 2 "mounted there already" sampan mount "file://$SRC" "$MNT" --cache "ssd:$T/other=1GiB"
advised "sampan umount"
! is_mounted "$MNT" || fail "the advice ends another mount"
mount_set "file://$SRC"
refused 2 "ends the mount it lies in" sampan umount "$MNT/class-000"
advised "sampan umount"
! is_mounted "$MNT" || fail "the advice ends another mount"

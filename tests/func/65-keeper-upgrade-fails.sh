#!/usr/bin/env bash
# A program that does not get ready (it ends, it is none) gives way to the old one; upgrade exits 1 and says why.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
make_set --classes 1 --files 10
mount_set "file://$SRC"
start_readers
refused 1 "false did not get ready: it ended with code 1" sampan upgrade "$MNT" --program "$(readlink -f /bin/false)"
refused 4 "Permission denied" sampan upgrade "$MNT" --program "$SRC/class-000/000000.bin"
restarts=$(status restarts)
refused 2 "$SRC: not a file" sampan upgrade "$MNT" --program "$SRC"
expect "restarts" "$(status restarts)" "$restarts"
refused 3 "No such file" sampan upgrade "$MNT" --program "$T/nowhere"
refused 2 "MOUNT, --all" sampan upgrade
expect "program" "$(readlink "/proc/$(life)/exe")" "$(readlink -f "$S")"
expect "state" "$(status state)" ready
readers_ok
unmount
mount_set "file://$SRC" --no-keeper
refused 2 "without a keeper" sampan upgrade "$MNT"
unmount
nothing_left

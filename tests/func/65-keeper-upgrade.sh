#!/usr/bin/env bash
# upgrade puts another program in the daemon's place while readers read; the replaced file of the old one is no matter.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
make_set --classes 2 --files 20
mount_set "file://$SRC"
cp "$S" "$T/sampan-new"
start_readers
sampan upgrade "$MNT" --program "$T/sampan-new"
expect "program" "$(readlink "/proc/$(life)/exe")" "$T/sampan-new"
rm "$T/sampan-new"
kill_life # starts what runs, not what lies there
readlink "/proc/$(life)/exe" | grep -q "^$T/sampan-new" || fail "another program was started"
old=$(life)
sampan upgrade --all --json >"$T/upgrade"
cat "$T/upgrade"
expect "pid" "$(field pid <"$T/upgrade")" "$(life)"
[ "$(life)" != "$old" ] || fail "the same process serves"
expect "program" "$(readlink "/proc/$(life)/exe")" "$(readlink -f "$S")"
readers_ok
unmount
nothing_left

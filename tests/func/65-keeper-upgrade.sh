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
! sampan doctor "$MNT" 2>/dev/null | grep -q "runs a program" || fail "doctor objects to a program that is there"
rm "$T/sampan-new"
sampan doctor "$MNT" >"$T/doctor" || fail "a replaced program is wrong: $(cat "$T/doctor")"
grep -q "^note .*runs a program that was replaced.*(sampan upgrade $MNT; " "$T/doctor" || fail "doctor says: $(cat "$T/doctor")"
kill_life # starts what runs, not what lies there
readlink "/proc/$(life)/exe" | grep -q "^$T/sampan-new" || fail "another program was started"
old=$(life)
sampan upgrade --all --json >"$T/upgrade"
cat "$T/upgrade"
sampan doctor "$MNT" >"$T/doctor"
! grep -q "runs a program" "$T/doctor" || fail "upgraded, and doctor says: $(cat "$T/doctor")"
expect "pid" "$(field pid <"$T/upgrade")" "$(life)"
[ "$(life)" != "$old" ] || fail "the same process serves"
expect "program" "$(readlink "/proc/$(life)/exe")" "$(readlink -f "$S")"
readers_ok
unmount
nothing_left

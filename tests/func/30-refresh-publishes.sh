#!/usr/bin/env bash
# --refresh serves a new version while mounted: added, changed and removed samples; open files stay whole.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 5
mount_set "file://$SRC" --refresh 1s
same_tree "$SRC" "$MNT"
version=$(status version)
cp "$SRC/class-000/000000.bin" "$T/old"
exec 7<"$MNT/class-000/000000.bin"
echo "new bytes" >"$SRC/class-000/000000.bin"
mkdir "$SRC/class-new"
echo "added" >"$SRC/class-new/a.bin"
rm "$SRC/class-001/000002.bin"
seen() { [ -e "$MNT/class-new/a.bin" ]; }
until_true 30 seen || fail "the new version was not served"
same_tree "$SRC" "$MNT"
[ "$(status version)" != "$version" ] || fail "status still names the old version"
cat <&7 >"$T/open" 2>"$T/open.err" || grep -q Stale "$T/open.err" || fail "the open file: $(cat "$T/open.err")"
[ ! -s "$T/open" ] || cmp "$T/old" "$T/open" || fail "an open file gave other bytes than its version"
exec 7<&-
unmount

#!/usr/bin/env bash
# A path of a mount stands for what it is at its source; the mount looks again.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 3 --files 4
mount_set "file://$SRC"
sampan rmr "$MNT/class-001" --yes --json >"$T/out"
expect "removed" "$(field removed.0.removed <"$T/out")" 4
[ ! -e "$SRC/class-001" ] || fail "still at the source"
gone() { [ ! -e "$MNT/class-001" ]; }
until_true 20 gone || fail "still in the mount"
expect "samples" "$(status set.samples)" 8
refused 2 "whole set" sampan rmr "$MNT" --yes
unmount

# a folder of the mount that is one source, or holds several
cat >"$T/set.json" <<EOF
{"sources": [{"uri": "file://$SRC", "at": "one/"}, {"uri": "file://$SRC/class-000", "at": "many/a/"},
             {"uri": "file://$SRC/class-002", "at": "many/b/"}]}
EOF
mount_set "$T/set.json"
refused 2 "whole source: name its URI, file://$SRC/," sampan rmr "$MNT/one" --yes
refused 2 "not in one source" sampan rmr "$MNT/many" --yes
expect "samples" "$(find "$SRC/class-000" "$SRC/class-002" -type f | wc -l)" 8
unmount

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
# A link of the source goes itself; what it leads to stays, named by a path below it, too. The source's own path may have links.
mkdir "$T/outside"
touch "$T/outside/sample"
ln -s "$T/outside" "$SRC/linked"
unmount
ln -s "$SRC" "$T/alias"
mount_set "file://$T/alias"
refused 4 "behind a link, which is not followed" sampan rmr "$MNT/linked/sample" --yes --skip-trash
sampan rmr "$MNT/linked" --yes --skip-trash
[ ! -L "$SRC/linked" ] || fail "the link is still there"
[ -e "$T/outside/sample" ] || fail "what it led to is gone"
sampan rmr "$MNT/class-000/000000.bin" --yes --skip-trash
expect "samples" "$(status set.samples)" 7
unmount
rm "$T/alias"

# a folder of the mount that is one source, or holds several
cat >"$T/set.json" <<EOF
{"sources": [{"uri": "file://$SRC", "at": "one/"}, {"uri": "file://$SRC/class-000", "at": "many/a/"},
             {"uri": "file://$SRC/class-002", "at": "many/b/"}]}
EOF
mount_set "$T/set.json"
refused 2 "whole source: name its URI, file://$SRC/," sampan rmr "$MNT/one" --yes
refused 2 "not in one source" sampan rmr "$MNT/many" --yes
expect "samples" "$(find "$SRC/class-000" "$SRC/class-002" -type f | wc -l)" 7
unmount

#!/usr/bin/env bash
# Between folders: links as links or as what they lead to, modes and owners, empty folders, holes.
. "$SAMPAN_TESTS/lib/common.sh"
mkdir -p "$SRC/d/e" "$SRC/empty"
echo one >"$SRC/d/one"
chmod 0640 "$SRC/d/one"
chmod 0511 "$SRC/d/e"
ln -s d/one "$SRC/link"
ln -s d "$SRC/folder"
ln -s nowhere "$SRC/dangling"
truncate -s 5G "$SRC/holes"
echo end >>"$SRC/holes"
[ "$(id -u)" != 0 ] || chown 1234:2345 "$SRC/d/one" "$SRC/d"

refused 1 "dangling: a link that leads nowhere" sampan sync "file://$SRC" "file://$T/a" --exclude holes --quiet
[ ! -L "$T/a/link" ] && [ -f "$T/a/folder/one" ] && [ ! -e "$T/a/dangling" ] && [ ! -e "$T/a/empty" ] || fail "links were not followed"
expect "mode" "$(stat -c %a "$T/a/d/one")" 644

sampan sync "file://$SRC" "file://$T/b" --links --perms --dirs --quiet
describe() { (cd "$1" && find . -mindepth 1 -printf '%P %y %m %U %G %l\n' | LC_ALL=C sort); }
cmp <(describe "$SRC") <(describe "$T/b") || fail "$(diff <(describe "$SRC") <(describe "$T/b"))"
at_most "blocks of a file of holes" "$(stat -c %b "$T/b/holes")" 1000
expect "its end" "$(tail -c 4 "$T/b/holes")" end
rm "$SRC/holes" "$T/b/holes"

chmod 0600 "$SRC/d/one"
ln -sfn d/e "$SRC/folder"
sampan sync "file://$SRC" "file://$T/b" --links --perms --dirs --json >"$T/out"
expect "copied" "$(field copied <"$T/out")" 1
cmp <(describe "$SRC") <(describe "$T/b") || fail "$(diff <(describe "$SRC") <(describe "$T/b"))"
refused 2 "keeps none of them" sampan sync "file://$SRC" "webhdfs://127.0.0.1:1/x" --links

mkdir "$T/part" "$T/part/d"
sampan sync "file://$SRC" "file://$T/part" --links --perms --dirs --existing --quiet || fail "--existing with folders that are not there"
expect "what --existing left" "$(cd "$T/part" && find . -mindepth 1 -printf '%P %m %U %G')" "$(cd "$SRC" && find d -maxdepth 0 -printf '%p %m %U %G')"

#!/usr/bin/env bash
# A name with a line break or a terminal's codes takes one line of what is said, and does nothing to the terminal.
. "$SAMPAN_TESTS/lib/common.sh"
make_set --classes 1 --files 1
sampan scan "file://$SRC" --quiet --cache-dir "$T/cached"
for name in $'line\nbreak' $'code\033[31m'; do
    echo x >"$SRC/class-000/$name"
    ln -s nowhere "$SRC/class-000/$name-dangling"
done
one_line_each() { # LINES WHAT
    ! grep -q $'\033' "$T/said" || fail "$2: a code for the terminal"
    expect "$2" "$(grep -cE "class-000/(line break|code .31m)" "$T/said")" "$1"
    ! grep -q '^break' "$T/said" || fail "$2: a name in two lines: $(cat -v "$T/said")"
}
sampan scan "file://$SRC" --diff --quiet --cache-dir "$T/cached" >"$T/said" 2>"$T/said.err"
one_line_each 2 "what scan --diff says"
mv "$T/said.err" "$T/said"
one_line_each 2 "what scan warns of"
sampan sync "file://$SRC" "file://$T/copy" --dry --quiet >"$T/said" 2>"$T/said.err" || true
one_line_each 2 "what sync would do"
mv "$T/said.err" "$T/said"
one_line_each 2 "what sync left out"

#!/usr/bin/env bash
# --delete-dst where the destination has a link by the name of a folder of the source: the link goes, a folder comes, and
# nothing is written to where the link led. A link that a pattern keeps stays, and what would lie behind it is a failure.
. "$SAMPAN_TESTS/lib/common.sh"
mkdir -p "$SRC/a/deep" "$T/outside"
echo new >"$SRC/a/x"
echo new >"$SRC/a/deep/y"
echo mine >"$T/outside/x"
for options in "" --dirs --links "--links --dirs --perms"; do
    rm -rf "$T/real" "$T/dst"
    mkdir "$T/real"
    ln -s real "$T/dst" # the destination's own name may be one
    ln -s "$T/outside" "$T/dst/a"
    # shellcheck disable=SC2086
    expect "deleted, were it done ($options)" "$(sampan sync "file://$SRC" "file://$T/dst" --delete-dst $options --dry --json | field deleted)" 1
    # shellcheck disable=SC2086
    sampan sync "file://$SRC" "file://$T/dst" --delete-dst $options --json >"$T/out" || fail "$options: $(cat "$T/out")"
    expect "deleted ($options)" "$(field deleted <"$T/out")" 1
    same_bytes "$SRC" "$T/real"
    expect "what the link led to ($options)" "$(cd "$T/outside" && grep -r .)" "x:mine"
done

rm -r "$T/real/a"
ln -s "$T/outside" "$T/dst/a"
refused 1 'a/x: "a" is a link at the destination' sampan sync "file://$SRC" "file://$T/dst" --delete-dst \
    --include '/a/x' --include 'a/' --exclude '*' --quiet
[ -L "$T/dst/a" ] || fail "the link is gone"
expect "what the link leads to" "$(cat "$T/outside/x")" mine

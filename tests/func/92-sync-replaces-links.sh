#!/usr/bin/env bash
# --delete-dst or --links where the destination has a link by the name of a folder of the source: the link goes, a folder
# comes, and nothing is written to where the link led. A link that a pattern keeps from --delete-dst stays, and what would
# lie behind it is a failure. Without both, links are followed.
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

mkdir "$SRC/none"
for options in --links "--links --dirs --perms"; do
    rm -rf "$T/dst"
    mkdir "$T/dst"
    ln -s "$T/outside" "$T/dst/a"
    ln -s "$T/outside" "$T/dst/none"
    ln -s "$T/outside" "$T/dst/more"
    # shellcheck disable=SC2086
    sampan sync "file://$SRC" "file://$T/dst" $options --quiet || fail "$options"
    expect "files ($options)" "$(cd "$T/dst" && grep -r . a | sort)" "$(cd "$SRC" && grep -r . a | sort)"
    expect "what the link led to ($options)" "$(cd "$T/outside" && grep -r .)" "x:mine"
    [ -L "$T/dst/more" ] || fail "$options: a link that is in nobody's way is gone"
done
[ -d "$T/dst/none" ] && [ ! -L "$T/dst/none" ] || fail "an empty folder did not come"
rm -r "$T/dst/a"
ln -s "$T/outside" "$T/dst/a"
sampan sync "file://$SRC" "file://$T/dst" --force-update --quiet
expect "behind a link that is followed" "$(cat "$T/outside/x")" new

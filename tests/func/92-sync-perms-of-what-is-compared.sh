#!/usr/bin/env bash
# --perms reaches what is compared and found equal, too: before its source is deleted, and where it is a link.
. "$SAMPAN_TESTS/lib/common.sh"
use_s3
mkdir -p "$SRC" "$T/move"
echo one >"$SRC/one"
ln -s one "$SRC/link"
told() { (cd "$1" && find . -mindepth 1 -printf '%y %m %T@ %P\n' | LC_ALL=C sort); }
for to in "file://$T/dst" "s3://$BUCKET/dst"; do
    chmod 644 "$SRC/one"
    sampan sync "file://$SRC" "$to" --perms --links --quiet
    chmod 600 "$SRC/one"
    touch -h -d 2001-02-03 "$SRC/link"
    sampan sync "file://$SRC" "$to" --perms --links --check-all --json >"$T/out"
    expect "copied" "$(field copied <"$T/out")" 0
    rm -rf "$T/back"
    sampan sync "$to" "file://$T/back" --perms --links --quiet
    expect "modes and times, by way of $to" "$(told "$T/back")" "$(told "$SRC")"

    cp -a "$SRC/one" "$T/move/one"
    chmod 640 "$T/move/one"
    want=$(told "$T/move")
    sampan sync "file://$T/move" "$to" --perms --delete-src --json >"$T/out"
    expect "copied, deleted" "$(field copied <"$T/out") $(field deleted_src <"$T/out")" "0 1"
    rm -rf "$T/back"
    sampan sync "$to" "file://$T/back" --perms --include one --exclude '*' --quiet
    expect "of what was moved" "$(told "$T/back")" "$want"
done

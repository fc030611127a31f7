#!/usr/bin/env bash
# With --delete-dst one run makes a file of a folder and a folder of a file; without it both are failures, and stay.
. "$SAMPAN_TESTS/lib/common.sh"
rm -rf "$SRC"
mkdir -p "$SRC/folder/deep" "$SRC/both"
for f in file folder/deep/x folder/y both/a both/a-b; do echo "new $f" >"$SRC/$f"; done

was() { # each in the other's place
    rm -rf "$T/dst"
    mkdir -p "$T/dst/file/deep" "$T/dst/both/a/b"
    for f in file/deep/x file/y folder both/a/b/c both/a-b; do echo "older $f" >"$T/dst/$f"; done
}
for dirs in "" --dirs; do
    was
    code=0
    sampan sync "file://$SRC" "file://$T/dst" $dirs --json >"$T/out" 2>"$T/err" || code=$?
    expect "without --delete-dst: code, failed, left" \
        "$code $(field failed <"$T/out") $(cd "$T/dst" && cat folder file/y both/a/b/c | tr '\n' ' ')" \
        "1 $([ "$dirs" ] && echo 6 || echo 4) older folder older file/y older both/a/b/c "
    sampan sync "file://$SRC" "file://$T/dst" $dirs --delete-dst --json >"$T/out" 2>"$T/err" || fail "$dirs: $(cat "$T/err" "$T/out")"
    diff -r "$SRC" "$T/dst" || fail "$dirs: other content"
    expect "failed, deleted $dirs" "$(field failed <"$T/out") $(field deleted <"$T/out")" "0 $([ "$dirs" ] && echo 8 || echo 4)"
done

# What is not deleted is still in the way then, and a failure: told once.
was
code=0
sampan sync "file://$SRC" "file://$T/dst" --delete-dst --exclude c --exclude folder --json >"$T/out" 2>"$T/err" || code=$?
expect "left out below a folder: code, failed" "$code $(field failed <"$T/out") $(cat "$T/dst/both/a/b/c")" "1 1 older both/a/b/c"

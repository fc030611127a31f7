#!/usr/bin/env bash
# Patterns in their order, key ranges, lists, shares, --existing: each takes just the keys it names.
. "$SAMPAN_TESTS/lib/common.sh"
mkdir -p "$SRC"/{a/b,c,d}
for f in a/1.jpg a/2.txt a/b/3.jpg c/4.jpg c/5.tmp d/6.jpg 7.jpg; do echo "$f" >"$SRC/$f"; done

got() { # WANT OPTIONS…
    local want=$1
    shift
    rm -rf "$T/dst"
    sampan sync "file://$SRC" "file://$T/dst" --quiet "$@" >"$T/out"
    expect "keys with $*" "$(cd "$T/dst" && find . -type f -printf '%P\n' | LC_ALL=C sort | tr '\n' ' ')" "$want"
}
got "7.jpg a/1.jpg a/2.txt a/b/3.jpg c/4.jpg c/5.tmp d/6.jpg "
got "7.jpg a/1.jpg a/b/3.jpg c/4.jpg d/6.jpg " --exclude '*.tmp' --exclude '*.txt'
got "7.jpg c/4.jpg c/5.tmp d/6.jpg " --exclude a/
got "7.jpg a/1.jpg a/b/3.jpg c/4.jpg d/6.jpg " --include '*/' --include '*.jpg' --exclude '*'
got "7.jpg " --include '*.jpg' --exclude '*'
got "a/1.jpg a/2.txt a/b/3.jpg " --include 'a/***' --exclude '*'
got "7.jpg a/1.jpg a/b/3.jpg c/4.jpg d/6.jpg " --match-full-path --include '*.jpg' --exclude '**'
got "a/1.jpg a/2.txt a/b/3.jpg c/4.jpg " --start a/1.jpg --end c/4.jpg
got "7.jpg a/1.jpg a/2.txt " --limit 3
printf 'c/\n./7.jpg\na/b/\n/7.jpg\nc/\n' >"$T/list" # some twice
got "7.jpg a/b/3.jpg c/4.jpg c/5.tmp " --files-from "$T/list"
printf 'nowhere\nnofolder/\n7.jpg\n' >"$T/list"
rm -rf "$T/dst"
code=0
sampan sync "file://$SRC" "file://$T/dst" --files-from "$T/list" --json >"$T/out" 2>"$T/err" || code=$?
expect "exit code" "$code" 1
expect "missing" "$(field failed <"$T/out")" 2
expect "copied" "$(field copied <"$T/out")" 1
mkdir "$T/dst/nofolder"
touch "$T/dst/nowhere" "$T/dst/nofolder/x"
code=0
sampan sync "file://$SRC" "file://$T/dst" --files-from "$T/list" --json >"$T/out" 2>"$T/err" || code=$?
expect "missing, but at the destination: code, failed" "$code $(field failed <"$T/out")" "1 2"
sampan sync "file://$SRC" "file://$T/dst" --files-from "$T/list" --delete-dst --json >"$T/out"
expect "deleted there" "$(field deleted <"$T/out")" 2

rm -rf "$T/dst"
for i in 0 1 2; do sampan sync "file://$SRC" "file://$T/dst" --share $i/3 --json | field copied; done >"$T/shares"
expect "sum of shares" "$(awk '{ n += $1 } END { print n }' "$T/shares")" 7
same_bytes "$SRC" "$T/dst"

echo old >"$T/dst/7.jpg"
rm "$T/dst/a/1.jpg"
expect "existing" "$(sampan sync "file://$SRC" "file://$T/dst" --existing --json | field copied)" 1
[ ! -e "$T/dst/a/1.jpg" ] || fail "--existing copied a new object"
echo older >"$T/dst/7.jpg"
expect "ignore existing" "$(sampan sync "file://$SRC" "file://$T/dst" --ignore-existing --json | field copied)" 1
expect "content" "$(cat "$T/dst/7.jpg")" older

touch -d '2030-01-01' "$T/dst/7.jpg"
expect "an older source with --update" "$(sampan sync "file://$SRC" "file://$T/dst" --update --json | field copied)" 0
touch -d '2031-01-01' "$SRC/7.jpg"
expect "a newer source with --update" "$(sampan sync "file://$SRC" "file://$T/dst" --update --json | field copied)" 1
printf '7.jpX\n' >"$T/dst/7.jpg"
expect "the same size" "$(sampan sync "file://$SRC" "file://$T/dst" --json | field copied)" 0
expect "--check-all" "$(sampan sync "file://$SRC" "file://$T/dst" --check-all --json | field copied)" 1
same_bytes "$SRC" "$T/dst"
expect "--force-update" "$(sampan sync "file://$SRC" "file://$T/dst" --force-update --json | field copied)" 7
refused 2 "no pattern" sampan sync "file://$SRC" "file://$T/dst" --exclude /
refused 2 "share" sampan sync "file://$SRC" "file://$T/dst" --share 3/3
refused 2 "workers cannot see a folder" sampan sync "file://$SRC" "file://$T/dst" --worker a,b

#!/usr/bin/env bash
# Modes, owners, times, links and empty folders survive a store that has none of them: by way of a bucket
# a folder comes back as it was. What a store cannot keep is refused; links of a bucket lead nowhere else.
. "$SAMPAN_TESTS/lib/common.sh"
use_s3
mkdir -p "$SRC/d/e" "$SRC/empty"
echo one >"$SRC/d/one"
head -c 17000000 /dev/urandom >"$SRC/long"
chmod 0640 "$SRC/d/one"
chmod 0511 "$SRC/d/e"
touch -d '2001-02-03 04:05:06.123456789' "$SRC/d/one" "$SRC/long"
ln -s d/one "$SRC/link"
ln -s nowhere "$SRC/dangling"
[ "$(id -u)" != 0 ] || chown 1234:2345 "$SRC/d/one" "$SRC/d"
describe() { (cd "$1" && find . -mindepth 1 \( -type l -printf '%P %l %U %G\n' -o -printf '%P %y %m %U %G %T@\n' \) | LC_ALL=C sort); }
keep="--links --perms --dirs"
# shellcheck disable=SC2086
{
    sampan sync "file://$SRC" "s3://$BUCKET/a" $keep --quiet
    s3 head "$BUCKET" a/d/one >"$T/meta"
    expect "mode, as octal" "$(printf '%o' "$(sed -n 's/^mode //p' "$T/meta")")" 100640
    expect "mtime" "$(sed -n 's/^mtime //p' "$T/meta")" "$(stat -c %.9Y "$SRC/d/one")"
    expect "a link's body" "$(s3 cat "$BUCKET" a/link)" d/one
    sampan sync "s3://$BUCKET/a" "s3://$BUCKET/b" $keep --quiet
    for from in a b; do
        sampan sync "s3://$BUCKET/$from" "file://$T/$from" $keep --quiet
        cmp <(describe "$SRC") <(describe "$T/$from") || fail "$from: $(diff <(describe "$SRC") <(describe "$T/$from"))"
        cmp "$SRC/long" "$T/$from/long" || fail "$from: long is another"
    done
    # Again: nothing to copy; and of what changed beside the bytes, that alone.
    sampan sync "file://$SRC" "s3://$BUCKET/a" $keep --json >"$T/out"
    expect "copied" "$(field copied <"$T/out")" 0
    chmod 0600 "$SRC/d/one" "$SRC/long"
    ln -sfn d/two "$SRC/link"
    sampan sync "file://$SRC" "s3://$BUCKET/a" $keep --json >"$T/out"
    expect "copied" "$(field copied <"$T/out")" 1
    sampan sync "s3://$BUCKET/a" "file://$T/a" $keep --json >"$T/out"
    expect "copied" "$(field copied <"$T/out")" 1
    cmp <(describe "$SRC") <(describe "$T/a") || fail "$(diff <(describe "$SRC") <(describe "$T/a"))"
}
# A bucket whose link is to catch what is written below its name.
mkdir "$T/outside"
mkdir "$T/evil"
ln -s "$T/outside" "$T/evil/x"
sampan sync "file://$T/evil" "s3://$BUCKET/evil" --links --quiet
echo caught | s3 put-bytes "$BUCKET" evil/x/file
for _ in 1 2; do
    "$S" sync "s3://$BUCKET/evil" "file://$T/victim" --links --quiet >"$T/out" 2>&1 && fail "a link and what lies below it"
    expect "outside" "$(ls "$T/outside")" ""
done
refused 2 "links: webhdfs://127.0.0.1:1/x/ keeps none of them" sampan sync "file://$SRC" "webhdfs://127.0.0.1:1/x" --links
refused 2 "perms: http://127.0.0.1:1/x/ keeps none of them" sampan sync "http://127.0.0.1:1/x/" "file://$T/c" --perms

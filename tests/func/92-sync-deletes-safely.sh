#!/usr/bin/env bash
# Deleting: only after whole listings, never out of the destination, never the last copy.
. "$SAMPAN_TESTS/lib/common.sh"
make_set --classes 2 --files 5
D="$T/dst"
sampan sync "file://$SRC" "file://$D" --quiet
mkdir -p "$D/old/er" "$T/outside"
echo x >"$D/extra"
echo x >"$D/old/er/x"
echo mine >"$T/outside/mine"
ln -s "$T/outside" "$D/link"
expect "extra" "$(sampan sync "file://$SRC" "file://$D" --json | field extra)" 3
expect "dry" "$(sampan sync "file://$SRC" "file://$D" --delete-dst --dry --json | field deleted)" 3
[ -e "$D/extra" ] || fail "--dry deleted"
expect "deleted" "$(sampan sync "file://$SRC" "file://$D" --delete-dst --dirs --json | field deleted)" 5
expect "outside" "$(cat "$T/outside/mine")" mine
[ ! -L "$D/link" ] && [ ! -e "$D/old" ] || fail "extras are left"
same_bytes "$SRC" "$D"

mkdir "$T/empty"
refused 2 "source is empty" sampan sync "file://$T/empty" "file://$D" --delete-dst
refused 3 "no such folder" sampan sync "file://$T/nowhere" "file://$D" --delete-dst
refused 2 "the same" sampan sync "file://$D" "file://$D/." --delete-dst
refused 2 "lies in the source" sampan sync "file://$D" "file://$D/sub" --delete-dst
refused 2 "lies in the destination" sampan sync "file://$D/class-000" "file://$D" --delete-dst
refused 2 "no-fsync" sampan sync "file://$SRC" "file://$D" --no-fsync --delete-src
ln -s "$D" "$T/alias"
refused 2 "the same" sampan sync "file://$D" "file://$T/alias" --delete-dst
refused 2 "exclude each other" sampan sync "file://$SRC" "file://$D" --delete-dst --delete-src
refused 2 "limit" sampan sync "file://$SRC" "file://$D" --delete-dst --limit 1
same_bytes "$SRC" "$D"

# behind a link that leads nowhere there may be anything at other times
mkdir "$T/linked"
cp -a "$SRC/class-000" "$T/away"
ln -s "$T/away" "$T/linked/train"
cp "$SRC/$(cd "$SRC" && find . -type f | head -1)" "$T/one"
ln -s "$T/one" "$T/linked/one"
cp "$T/one" "$T/linked/plain"
sampan sync "file://$T/linked" "file://$T/copy" --quiet
mv "$T/away" "$T/far"
touch "$T/copy/extra"
echo more >"$T/linked/more"
code=0
sampan sync "file://$T/linked" "file://$T/copy" --delete-dst --json >"$T/out" 2>"$T/err" || code=$?
expect "exit code" "$code" 1
grep -q "nothing was deleted" "$T/err" || fail "said: $(cat "$T/err")"
expect "failed, deleted, copied" "$(field failed <"$T/out") $(field deleted <"$T/out") $(field copied <"$T/out")" "1 0 1"
expect "copies" "$(find "$T/copy/train" -type f | wc -l)" 5
[ -e "$T/copy/extra" ] || fail "deleted an extra"
refused 1 "train: a link that leads nowhere" sampan sync "file://$T/linked" "file://$T/copy"
sampan sync "file://$T/linked" "file://$T/copy" --delete-dst --exclude /train/ --json >"$T/out"
expect "left out: failed, deleted" "$(field failed <"$T/out") $(field deleted <"$T/out")" "0 1"
expect "copies left out" "$(find "$T/copy/train" -type f | wc -l)" 5
mv "$T/far" "$T/away"
sampan sync "file://$T/linked" "file://$T/packs" --pack 8MiB --quiet
rm -r "$T/away"
code=0
sampan sync "file://$T/linked" "file://$T/packs" --pack 8MiB --delete-dst --json >"$T/out" 2>"$T/err" || code=$?
expect "packed: code, failed, deleted, packed" "$code $(field failed <"$T/out") $(field deleted <"$T/out") $(field packed <"$T/out")" "1 1 0 8"
rm -r "$T/linked" "$T/copy" "$T/packs"

# a source is deleted only when its copy is the same, byte for byte
cp -a "$SRC" "$T/going"
one=$(cd "$SRC" && find . -type f -printf '%P\n' | sort | head -1)
printf X | dd of="$D/$one" conv=notrunc status=none
touch -r "$SRC/$one" "$D/$one" # neither its size nor its time tells
two=$(cd "$SRC" && find . -type f -printf '%P\n' | sort | tail -1)
rm "$D/$two"
sampan sync "file://$T/going" "file://$D" --delete-src --json >"$T/out"
expect "deleted at the source" "$(field deleted_src <"$T/out")" 10
expect "copied anew" "$(field copied <"$T/out")" 2
expect "left at the source" "$(find "$T/going" -type f | wc -l)" 0
same_bytes "$SRC" "$D"

use_s3
sampan sync "file://$SRC" "s3://$BUCKET/p" --quiet
s3 put-bytes "$BUCKET" p/extra </dev/null
s3 put-bytes "$BUCKET" p2/near </dev/null
refused 2 "lies in the destination" sampan sync "s3://$BUCKET/p" "s3://$BUCKET/" --delete-dst
expect "deleted" "$(sampan sync "file://$SRC" "s3://$BUCKET/p" --delete-dst --json | field deleted)" 1
expect "the neighbour" "$(s3 keys "$BUCKET" | grep -c p2/near)" 1
start_proxy "$MOTO_URL"
faults "status=403 key=list-type"
rm -r "$SRC/class-000"
code=0
AWS_ENDPOINT_URL=$PROXY_URL sampan sync "file://$SRC" "s3://$BUCKET/p" --delete-dst --json >"$T/out" 2>"$T/err" || code=$?
expect "exit code of a failed listing" "$code" 4
expect "objects" "$(s3 keys "$BUCKET" | grep -c ^p/)" 10

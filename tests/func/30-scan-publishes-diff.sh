#!/usr/bin/env bash
# scan lists a source into a catalog file, counts what changed since, and a mount serves that file, and stays with
# it, also where its daemon was killed.
. "$SAMPAN_TESTS/lib/common.sh"
export SAMPAN_CACHE_DIR=$T/caches # of sets that are not mounted
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
make_set --classes 3 --files 7
sampan scan "file://$SRC" -o "$T/v1.catalog" --json >"$T/1.json"
expect "samples" "$(field samples <"$T/1.json")" 21
expect "folders" "$(field folders <"$T/1.json")" 3
expect "bytes" "$(field bytes <"$T/1.json")" "$(find "$SRC" -type f -printf '%s\n' | awk '{s += $1} END {print s}')"
sampan scan "file://$SRC" -o "$T/v2.catalog" --json >"$T/2.json"
expect "same version" "$(field version <"$T/2.json")" "$(field version <"$T/1.json")"
# -o replaces a file, also one that a link leads to, and nothing else
mkfifo "$T/pipe"
ln -s nowhere "$T/broken"
ln -s v2.catalog "$T/leads"
for bad in "$T/pipe" /dev/null "$T/broken" "$T"; do
    before=$(stat -c '%F %i' "$bad")
    refused "[1-4]" "-o" sampan scan "file://$SRC" -o "$bad"
    expect "$bad" "$(stat -c '%F %i' "$bad")" "$before"
done
refused 2 "leads nowhere" sampan scan "file://$SRC" -o "$T/broken"
rm "$T/v2.catalog"
echo old >"$T/v2.catalog"
sampan scan "file://$SRC" -o "$T/leads" >"$T/out"
[ -L "$T/leads" ] || fail "-o replaced a link"
cmp "$T/v1.catalog" "$T/v2.catalog"

# what a link that leads nowhere stood for is told
mv "$SRC/class-001" "$T/away"
ln -s "$T/away" "$SRC/class-001"
mv "$SRC/class-002/000003.bin" "$T/away-too"
ln -s "$T/away-too" "$SRC/class-002/000003.bin"
expect "through links" "$(sampan scan "file://$SRC" --json | field samples)" 21
mv "$T/away" "$T/far"
mv "$T/away-too" "$T/far-too"
sampan scan "file://$SRC" --json >"$T/3.json" 2>"$T/err"
expect "without them" "$(field samples <"$T/3.json") $(field bad_names <"$T/3.json")" "13 2"
grep -q "class-001: a link that leads nowhere" "$T/err" || fail "said nothing of the link: $(cat "$T/err")"
rm "$SRC/class-001" "$SRC/class-002/000003.bin"
mv "$T/far" "$SRC/class-001"
mv "$T/far-too" "$SRC/class-002/000003.bin"
sampan scan "file://$SRC" >"$T/out"

mount_set "file://$SRC" --catalog "$T/v1.catalog"
same_tree "$SRC" "$MNT"
version=$(status version)
for daemon in first next; do
    expect "version of the $daemon daemon" "$(status version)" "$version"
    refused 2 "without --catalog" sampan set "$MNT" "version=$version"
    [ "$daemon" = next ] || kill_life
done
unmount

# Also where the cache folder knows a newer one.
rm -rf "$T/cache"
mount_set "file://$SRC"
cp "$SRC/class-000/000000.bin" "$SRC/class-000/zz-new.bin"
sampan scan "$MNT" >"$T/scan"
expect "samples" "$(status set.samples)" 22
unmount
mount_set "file://$SRC" --catalog "$T/v1.catalog"
kill_life
expect "version after a kill" "$(status version) $(status set.samples)" "$version 21"
unmount
head -c 5000 "$T/v1.catalog" >"$T/cut.catalog"
refused "[1-4]" "catalog|truncated|cut" sampan mount "file://$SRC" "$MNT" --catalog "$T/cut.catalog" --cache "ssd:$T/c2=1GiB"
echo "not a catalog" >"$T/foreign.catalog"
refused "[1-4]" "catalog|foreign" sampan mount "file://$SRC" "$MNT" --catalog "$T/foreign.catalog" --cache "ssd:$T/c3=1GiB"
nothing_left

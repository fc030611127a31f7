#!/usr/bin/env bash
# A web server follows links: a folder that holds itself, or one above it, would be a set with its samples many times over.
# It is refused, with its name; folders of one name inside each other are none of that.
. "$SAMPAN_TESTS/lib/common.sh"
make_set --classes 2 --files 20
mkdir -p "$SRC/a/a/a/a/a/a"
echo sample >"$SRC/a/a/a/a/a/a/one.jpg"
start_nginx
sampan scan "$HTTP_URL/" -o "$T/catalog"
class=$(cd "$SRC" && find . -mindepth 1 -maxdepth 1 -type d ! -name a -printf '%P\n' | sort | head -1)
ln -s .. "$SRC/$class/above"
refused 1 "$HTTP_URL/$class/above/.*a link that leads back.*manifest.tsv" sampan scan "$HTTP_URL/" -o "$T/catalog"
rm "$SRC/$class/above"
ln -s . "$SRC/latest"
refused 1 "$HTTP_URL/latest/latest/.*a link that leads back" sampan scan "$HTTP_URL/" -o "$T/catalog"
rm "$SRC/latest"
ln -s "$class" "$SRC/copy" # a folder twice is what it looks like
sampan scan "$HTTP_URL/" -o "$T/catalog"
nothing_left

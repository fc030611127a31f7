#!/usr/bin/env bash
# A catalog that is lost or damaged is made anew, and nothing that was cached under its ids is believed:
# the new one gives the same ids to other samples.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
put() { head -c 5000 /dev/urandom >"$SRC/c/$1.jpg"; }
mkdir -p "$SRC/c"
for n in 20 21 22 23 24; do put $n; done
cp "$SRC/c/20.jpg" "$SRC/c/whole.tar"
for profile in samples shards; do
    mount_set "file://$SRC" --profile $profile
    same_tree "$SRC" "$MNT"
    same_bytes "$SRC" "$MNT"
    unmount
    rm -r "$CACHE/catalog"
    put "1$profile" # sorted first: all ids move
    mount_set "file://$SRC" --profile $profile
    drop_pages
    same_tree "$SRC" "$MNT"
    unmount
    for file in "$CACHE"/catalog/*; do
        [ -L "$file" ] || { rm "$file" && : >"$file"; }
    done
    put "0$profile"
    if [ $profile = shards ]; then sampan scan "file://$SRC" --cache "ssd:$CACHE=1GiB" --quiet; fi
    mount_set "file://$SRC" --profile $profile
    drop_pages
    same_tree "$SRC" "$MNT"
    expect "errors" "$(status reads.errors)" 0
    unmount
done
# As long as the catalog is there, so is what was cached.
mount_set "file://$SRC"
same_tree "$SRC" "$MNT"
unmount
mount_set "file://$SRC" --rescan
drop_pages
same_tree "$SRC" "$MNT"
expect "reads from the store" "$(status reads.store)" 0
unmount
nothing_left

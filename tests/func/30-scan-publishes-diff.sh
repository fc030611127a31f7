#!/usr/bin/env bash
# scan lists a source into a catalog file, counts what changed since, and a mount serves that file, and stays with
# it, also where its daemon was killed.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
make_set --classes 3 --files 7
sampan scan "file://$SRC" -o "$T/v1.catalog" --json >"$T/1.json"
expect "samples" "$(field samples <"$T/1.json")" 21
expect "folders" "$(field folders <"$T/1.json")" 3
expect "bytes" "$(field bytes <"$T/1.json")" "$(find "$SRC" -type f -printf '%s\n' | awk '{s += $1} END {print s}')"
sampan scan "file://$SRC" -o "$T/v2.catalog" --json >"$T/2.json"
expect "same version" "$(field version <"$T/2.json")" "$(field version <"$T/1.json")"
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

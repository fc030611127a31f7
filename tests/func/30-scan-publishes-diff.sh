#!/usr/bin/env bash
# scan lists a source into a catalog file, counts what changed since, and a mount serves that file.
. "$SAMPAN_TESTS/lib/common.sh"
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
unmount
head -c 5000 "$T/v1.catalog" >"$T/cut.catalog"
refused "[1-4]" "catalog|truncated|cut" sampan mount "file://$SRC" "$MNT" --catalog "$T/cut.catalog" --cache "ssd:$T/c2=1GiB"
echo "not a catalog" >"$T/foreign.catalog"
refused "[1-4]" "catalog|foreign" sampan mount "file://$SRC" "$MNT" --catalog "$T/foreign.catalog" --cache "ssd:$T/c3=1GiB"
nothing_left

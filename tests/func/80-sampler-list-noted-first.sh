#!/usr/bin/env bash
# A version that a list file numbers is there only once that is noted: a scan that ends between the two, as by a kill or
# a power cut, would leave one whose order a mount without the list takes for the walk's.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 4 --size 1000
(cd "$SRC" && find . -name '*.bin' | sort -r | sed 's/$/ 7/') >"$T/list.txt"
mkdir -p "$CACHE/numbering/taken" # where the note goes
refused 1 "write .*/numbering" sampan mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB" --sampler "sequence,list=$T/list.txt"
[ ! -e "$CACHE/catalog/current" ] || fail "there is a version, and nothing noted of it: $(ls "$CACHE/catalog")"
rm -r "$CACHE/numbering"
mount_set "file://$SRC" --sampler "sequence,list=$T/list.txt"
expect "noted" "$(wc -l <"$CACHE/numbering")" 1
same_tree "$SRC" "$MNT"
unmount

#!/usr/bin/env bash
# A sync into packs that looks at a part of the keys leaves the set's other samples as they are, also where packs are rewritten.
. "$SAMPAN_TESTS/lib/common.sh"
mkdir -p "$SRC/a" "$SRC/b"
for f in a/one a/two b/one b/two; do echo "$f" >"$SRC/$f"; done
pack() { sampan sync "file://$SRC" "file://$T/packed" --pack 8MiB --json "$@" >"$T/out"; }
counts() { echo "$(field copied <"$T/out") $(field deleted <"$T/out") $(field extra <"$T/out") $(field packed <"$T/out")"; }
again() { echo "once more: $1" >"$SRC/$1"; }
pack
again a/one
rm "$SRC/b/two" # gone, but not looked at
pack --exclude '/b/' --delete-dst
expect "copied, deleted, extra, in the set, with a pattern" "$(counts)" "1 0 0 4"
again a/two
pack --end a/two --repack
expect "of a range" "$(counts)" "1 0 0 4"
again b/one
echo b/one >"$T/list"
pack --files-from "$T/list" --delete-dst
expect "of a list" "$(counts)" "1 0 0 4"
echo b/two >"$SRC/b/two"
mount_set "file://$T/packed"
same_bytes "$SRC" "$MNT"
unmount
rm "$SRC/b/two"
pack --delete-dst
expect "of all" "$(counts)" "0 1 0 3"

#!/usr/bin/env bash
# A manifest (path, size, mtime, sum) names the samples of a web server; sizes and times are its own.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set
write_manifest
start_nginx
mount_set "$HTTP_URL/manifest.tsv"
mv "$SRC/manifest.tsv" "$T/"
same_tree "$SRC" "$MNT"
file=$(cd "$SRC" && find . -type f -printf '%P\n' | sort | head -1)
expect "where a sample comes from" \
    "$(python3 -c 'import os, sys; print(os.getxattr(sys.argv[1], "user.sampan.source").decode())' "$MNT/$file")" \
    "$HTTP_URL/$file"
sampan clear "$MNT"
rm "$SRC/$file"
sampan warmup "$MNT" >"$T/warm" 2>&1 && fail "an object is missing"
grep -qF "$HTTP_URL/$file" "$T/warm" || fail "the failure names another address: $(cat "$T/warm")"
unmount
nothing_left

#!/usr/bin/env bash
# --update into packs keeps what is older at the source; a source that tells no times is not older than anything: its sizes are compared.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/servers/start.sh"
mkdir -p "$SRC"
for f in one two; do echo "$f" >"$SRC/$f"; done
pack() {
    sampan sync "$1" "file://$T/packed" --pack 8MiB --update --json >"$T/out"
    field copied <"$T/out"
}
expect "copied" "$(pack "file://$SRC")" 2
echo "two, and longer" >"$SRC/two"
touch -d '1 day ago' "$SRC/two"
expect "copied of what is older" "$(pack "file://$SRC")" 0
start_nginx
printf 'key\tsize\none\t4\ntwo\t%s\n' "$(stat -c %s "$SRC/two")" >"$SRC/manifest.tsv"
expect "copied of what tells no time" "$(pack "$HTTP_URL/manifest.tsv")" 1
rm "$SRC/manifest.tsv"
mount_set "file://$T/packed"
same_bytes "$SRC" "$MNT"

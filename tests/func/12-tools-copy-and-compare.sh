#!/usr/bin/env bash
# cp -r, tar, rsync -c, diff -r, find, du and ls see a plain folder.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --odd
mount_set "file://$SRC"
diff -r "$SRC" "$MNT"
cp -r "$MNT" "$T/copied"
chmod -R u+w "$T/copied"
same_bytes "$SRC" "$T/copied"
mkdir "$T/untarred"
tar -C "$MNT" -cf - . | tar -C "$T/untarred" -xf -
chmod -R u+w "$T/untarred"
same_tree "$SRC" "$T/untarred"
expect "find -type f" "$(find "$MNT" -type f -print0 | tr -cd '\0' | wc -c)" "$(find "$SRC" -type f -print0 | tr -cd '\0' | wc -c)"
expect "bytes by du" "$(du -sb --apparent-size "$MNT"/class-000 | cut -f1 | awk '{print ($1 > 0)}')" 1
expect "ls" "$(ls -A "$MNT")" "$(ls -A "$SRC")"
if command -v rsync >/dev/null; then
    rsync -rc "$MNT/" "$T/rsynced/"
    expect "second rsync -c" "$(rsync -rcni "$MNT/" "$T/rsynced/" | grep -c '^>f' || true)" 0
    same_bytes "$SRC" "$T/rsynced"
fi
unmount

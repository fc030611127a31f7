#!/usr/bin/env bash
# Everyday tools write as to any folder: tar, cp -a, rsync, git; what they wrote is in the store.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
need_command rsync
need_command git
make_set --classes 2 --files 30
mkdir -p "$T/store"
find "$SRC" -exec touch -h -d @1600000000.25 {} +
mount_writable "file://$T/store" --commit background
tar -C "$SRC" -cf "$T/src.tar" .
mkdir "$MNT/tar" "$MNT/sync"
tar -C "$MNT/tar" -xf "$T/src.tar"
cp -a "$SRC" "$MNT/copied"
rsync -a "$SRC/" "$MNT/sync/"
same_tree "$SRC" "$MNT/tar"
same_tree "$SRC" "$MNT/copied"
same_tree "$SRC" "$MNT/sync"
expect "rsync has nothing left to do" "$(rsync -ani "$SRC/" "$MNT/sync/")" ""
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t
git init -q "$MNT/repo"
cp -r "$SRC/class-000" "$MNT/repo/"
git -C "$MNT/repo" add -A
git -C "$MNT/repo" commit -qm one
mv "$MNT/repo/class-000" "$MNT/repo/moved"
git -C "$MNT/repo" add -A
git -C "$MNT/repo" commit -qm two
git -C "$MNT/repo" fsck --strict
git clone -q "$MNT/repo" "$T/clone"
same_bytes "$SRC/class-000" "$T/clone/moved"
rm -rf "$MNT/copied"
unmount
same_tree "$SRC" "$T/store/tar"
same_tree "$SRC" "$T/store/sync"
git -C "$T/store/repo" fsck --strict
[ ! -e "$T/store/copied" ] || fail "what was removed is still in the store"

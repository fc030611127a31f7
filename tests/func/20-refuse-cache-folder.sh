#!/usr/bin/env bash
# A cache folder that cannot be written, that another mount owns, that holds a user's files, lies in the mount point or
# is given twice is refused; the owner goes on, and the files stay as they are.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 5
if [ "$(id -u)" = 0 ]; then blocked=/proc/sampan; else blocked=/sampan; fi
refused "[14]" "cache|permission|$blocked" sampan mount "file://$SRC" "$MNT" --cache "ssd:$blocked=1GiB"
nothing_left
mount_set "file://$SRC"
mkdir "$T/second"
refused "[14]" "in use|owned|another|pid" sampan mount "file://$SRC" "$T/second" --cache "ssd:$CACHE=1GiB"
! is_mounted "$T/second" || fail "the second mount is there"
same_tree "$SRC" "$MNT"
unmount
nothing_left
refused 2 "lies in the mount point" sampan mount "file://$SRC" "$MNT" --cache "ssd:$MNT/cache=1GiB"
refused 2 "given twice" sampan mount "file://$SRC" "$MNT" --cache "ssd:$T/tier=1GiB" --cache "hdd:$T/tier=1GiB"
# ... however it is named
ln -s "$MNT" "$T/link"
refused 2 "lies in the mount point" sampan mount "file://$SRC" "$MNT" --cache "ssd:$T/link/cache=1GiB"
(cd "$T" && refused 2 "given twice" sampan mount "file://$SRC" "$MNT" --cache "ssd:tier/=1GiB" --cache "hdd:$T/./tier=1GiB")
[ ! -e "$T/tier" ] && [ ! -e "$MNT/cache" ] || fail "a folder was made"
mkdir -p "$T/home-of-somebody/letters"
echo dear >"$T/home-of-somebody/letters/first"
echo list >"$T/home-of-somebody/index.html"
before=$(cd "$T/home-of-somebody" && find . -printf '%p %s %T@\n' | sort)
for verb in "mount file://$SRC $MNT" "scan file://$SRC"; do
    # shellcheck disable=SC2086 # words
    refused 2 "not empty and not a cache" sampan $verb --cache "ssd:$T/home-of-somebody=1GiB"
done
refused "[34]" "cache" sampan clear "$T/home-of-somebody"
expect "what lies there" "$(cd "$T/home-of-somebody" && find . -printf '%p %s %T@\n' | sort)" "$before"
nothing_left

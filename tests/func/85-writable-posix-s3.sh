#!/usr/bin/env bash
# The same rules on an S3 store, and they hold in a new mount: modes, times and links are kept as metadata.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
use_store # use_s3
other=()
[ "$(id -u)" != 0 ] || other=(--allow-other)
mount_writable "$STORE/out" --commit background "${other[@]}"
mkdir "$MNT/rules"
chmod 777 "$MNT" "$MNT/rules"
"$SAMPAN_BUILD/tools/posix-rules" "$MNT/rules" --store
mkdir "$MNT/kept"
echo text >"$MNT/kept/file"
chmod 640 "$MNT/kept/file"
touch -d @1500000000 "$MNT/kept/file"
head -c 20000000 /dev/zero >"$MNT/kept/in-parts"
chmod 600 "$MNT/kept/in-parts"
touch -d @1500000001 "$MNT/kept/in-parts"
ln -s file "$MNT/kept/link"
mkdir -m 750 "$MNT/kept/folder"
before=$(cd "$MNT/kept" && stat -c '%n %F %a %u %g %s' -- * && stat -c %Y file in-parts)
sampan flush "$MNT"
unmount
expect "a link's target is its content" "$(stored cat out/kept/link)" file
stored head out/kept/file | has -x 'mtime 1500000000.*' || fail "no mtime: $(stored head out/kept/file)"
rm -rf "$CACHE"
mount_writable "$STORE/out" "${other[@]}"
expect "after all was forgotten here" "$(cd "$MNT/kept" && stat -c '%n %F %a %u %g %s' -- * && stat -c %Y file in-parts)" "$before"
expect "the link" "$(cat "$MNT/kept/link")" text
unmount

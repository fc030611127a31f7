#!/usr/bin/env bash
# The same rules on an S3 store, and they hold in a new mount: modes, times and links are kept as metadata.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
use_s3
other=()
[ "$(id -u)" != 0 ] || other=(--allow-other)
mount_writable "s3://$BUCKET/out" --commit background "${other[@]}"
mkdir "$MNT/rules"
chmod 777 "$MNT" "$MNT/rules"
"$SAMPAN_BUILD/tools/posix-rules" "$MNT/rules" --store
mkdir "$MNT/kept"
echo text >"$MNT/kept/file"
chmod 640 "$MNT/kept/file"
touch -d @1500000000 "$MNT/kept/file"
ln -s file "$MNT/kept/link"
mkdir -m 750 "$MNT/kept/folder"
before=$(cd "$MNT/kept" && stat -c '%n %F %a %u %g %s' -- * && stat -c %Y file)
sampan flush "$MNT"
unmount
expect "a link's target is its content" "$(s3 cat "$BUCKET" out/kept/link)" file
s3 head "$BUCKET" out/kept/file | grep -qx 'mtime 1500000000.*' || fail "no mtime: $(s3 head "$BUCKET" out/kept/file)"
rm -rf "$CACHE"
mount_writable "s3://$BUCKET/out" "${other[@]}"
expect "after all was forgotten here" "$(cd "$MNT/kept" && stat -c '%n %F %a %u %g %s' -- * && stat -c %Y file)" "$before"
expect "the link" "$(cat "$MNT/kept/link")" text
unmount

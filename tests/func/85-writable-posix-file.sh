#!/usr/bin/env bash
# A folder that is written keeps POSIX's rules: names, wrong calls, modes, owners, times, locks. On a file:// store.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
mkdir -p "$SRC"
other=()
[ "$(id -u)" != 0 ] || other=(--allow-other)
mount_writable "file://$SRC" "${other[@]}"
mkdir "$MNT/rules"
chmod 777 "$MNT" "$MNT/rules"
"$SAMPAN_BUILD/tools/posix-rules" "$MNT/rules" --store
unmount

#!/usr/bin/env bash
# What makes no sense with --writable is refused, and so is a store that can't be written.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
mkdir -p "$SRC"
for option in "--sampler sequence" "--catalog $T/none" "--profile shards" --rescan "--prefetch 5" \
    "--partition 0/2" "--peers http://127.0.0.1:7716" "--peer-token-file $T/token" "--weights 1,1" "--strategy hash"; do
    # shellcheck disable=SC2086
    refused 2 "writable and ${option%% *}" sampan mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB" --writable $option
done
refused 2 "commit.*--writable" sampan mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB" --commit close
refused 2 "sometimes.*interval" sampan mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB" --writable --commit sometimes
refused 2 "one.*folder on a disk" sampan mount "file://$SRC" "$MNT" --cache "mem:x=64MiB" --writable
refused 2 "can only be read" sampan mount http://127.0.0.1:9/x/ "$MNT" --cache "ssd:$CACHE=1GiB" --writable
refused 2 "URI of one store" sampan mount "$T/set.json" "$MNT" --cache "ssd:$CACHE=1GiB" --writable
echo >"$T/a-file"
refused 2 "not a folder" sampan mount "file://$T/a-file" "$MNT" --cache "ssd:$CACHE=1GiB" --writable
refused 3 "look at the folder.*Not a directory" sampan mount "file://$T/a-file/below" "$MNT" --cache "ssd:$CACHE=1GiB" --writable
nothing_left
sampan mount "file://$T/later" "$MNT" --cache "ssd:$CACHE=1GiB" --writable
[ ! -e "$T/later" ] || fail "it is made before there is anything in it"
echo result >"$MNT/r"
refused 2 "can be written.*rm -r" sampan rmr "$MNT/r" --yes
sampan umount "$MNT"
refused 4 "stage of another store.*remove this" sampan mount "file://$T/other" "$MNT" --cache "ssd:$CACHE=1GiB" --writable
[ "$(cat "$T/later/r")" = result ] || fail "what was written is not there"
nothing_left

#!/usr/bin/env bash
# A mount point that is missing, no folder, not empty, or mounted already is refused by name.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 2
try() { sampan mount "file://$SRC" "$1" --cache "ssd:$T/cache-$RANDOM=1GiB"; }
refused 3 "mkdir -p $T/none/below" try "$T/none/below"
refused 3 "does not exist .is the path right" sampan umount "$T/none/below"
refused 2 "name is empty" try ""
refused 3 "$T/none" try "$T/none"
echo x >"$T/file"
refused 2 "$T/file" try "$T/file"
mkdir "$T/full"
echo x >"$T/full/x"
refused 2 "not empty|empty" try "$T/full"
nothing_left
mount_set "file://$SRC"
refused 2 "already|mounted" try "$MNT"
# Its processes were replaced, and those that serve now have not registered yet.
record=$(echo "$SAMPAN_RUN_DIR"/*.json)
cp "$record" "$T/record"
sed 's/"\(start\|keeper\)_ticks":[0-9]*/"\1_ticks":1/g' "$T/record" >"$T/record.old"
cmp -s "$T/record" "$T/record.old" && fail "the record has another form: $(cat "$record")"
mv "$T/record.old" "$record"
(sleep 1 && mv "$T/record" "$record") &
refused 2 "is mounted there already, by process $(daemons)" try "$MNT"
wait $!
same_tree "$SRC" "$MNT"
unmount
nothing_left

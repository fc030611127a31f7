#!/usr/bin/env bash
# Wrong usage is exit 2 with the nearest known word; help and version say what they should.
. "$SAMPAN_TESTS/lib/common.sh"
make_set --classes 1 --files 1
refused 2 "free-space" sampan mount "file://$SRC" "$MNT" --free-spcae 10
refused 2 "mount" sampan mout x y
refused 2 "size|cache|12potatoes" sampan mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=12potatoes"
refused 2 "sampler|known" sampan mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB" --sampler no-such-sampler
refused 2 "scheme|uri|gopher" sampan mount gopher://x/y "$MNT" --cache "ssd:$CACHE=1GiB"
refused 3 "$T/nothing" sampan umount "$T/nothing"
refused 3 "$T/nothing|no mount" sampan status "$T/nothing"
sampan version | grep -q '[0-9]\.[0-9]'
sampan help | grep -q mount
sampan help mount | grep -q -- --free-space
SAMPAN_MEMORY=300MiB sampan config | grep memory | grep -q -i environment
nothing_left

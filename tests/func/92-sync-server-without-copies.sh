#!/usr/bin/env bash
# A server that has both ends and no request to copy an object: the objects go through here.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/s3mem.sh"
start_s3mem
mkdir "$SRC/d"
head -c 17000000 /dev/urandom >"$SRC/long"
echo short >"$SRC/d/short"
sampan sync "file://$SRC" s3://b/from --quiet
sampan sync s3://b/from s3://b/by-itself --quiet
at_least "copies by the server" "$(store /_count/COPY)" 2
store "/_set?nocopy=2" >"$T/set"
sampan sync s3://b/from s3://b/to --check-new --quiet
for key in long d/short; do
    store "/b/to/$key" | cmp - "$SRC/$key" || fail "the store has something else: $key"
done

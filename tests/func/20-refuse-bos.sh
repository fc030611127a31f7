#!/usr/bin/env bash
# BOS says no: a wrong key, a wrong secret, no credentials at all, a bucket that is not there.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/servers/start.sh"
need_mount
make_set --classes 1 --files 3
start_bos
mount() { sampan mount "bos://$1/" "$MNT" --cache "ssd:$T/c=1GiB" --endpoint "$BOS_URL"; }
BCE_ACCESS_KEY_ID=nobody refused 4 "InvalidAccessKeyId.*--credentials" mount samples
nothing_left
BCE_SECRET_ACCESS_KEY=wrong refused 4 "SignatureDoesNotMatch.*--credentials" mount samples
nothing_left
(unset BCE_ACCESS_KEY_ID BCE_SECRET_ACCESS_KEY; refused 4 "BCE_ACCESS_KEY_ID" mount samples)
nothing_left
refused 3 "nowhere" mount nowhere
nothing_left
[ ! -e "$T/c" ] || fail "a cache folder was left behind"

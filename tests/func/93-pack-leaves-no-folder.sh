#!/usr/bin/env bash
# The folder of temporary files that a killed run into packs leaves goes with the next run; that of a live one stays.
. "$SAMPAN_TESTS/lib/common.sh"
use_s3
make_set --classes 1 --files 5
start_proxy "$MOTO_URL"
export AWS_ENDPOINT_URL=$PROXY_URL
folders() { find "$TMPDIR" -maxdepth 1 -name 'sampan-packing-*' -printf '%p\n'; }
waits() { grep -q "$1" "$T/log/proxy.access"; }
begin() { # PREFIX : a run that waits for the store
    : >"$T/log/proxy.access"
    "$S" sync "file://$SRC" "s3://$BUCKET/$1" --pack 8MiB --quiet >"$T/out.$1" 2>&1 &
    pid=$!
    on_exit "kill -9 $pid"
    until_true 30 waits "PUT .*$1/.sampan/packs" || fail "no pack is on its way: $(cat "$T/out.$1")"
}
faults "stall-head key=.sampan/packs/"
begin killed
dead=$(folders)
[ -d "$dead" ] || fail "no folder: $dead"
kill -9 $pid
wait $pid 2>/dev/null || true
[ -d "$dead" ] || fail "the killed run left nothing to be removed"
begin alive
[ ! -e "$dead" ] || fail "what a killed run left stays"
live=$(folders)
[ -d "$live" ] || fail "no folder of the run that lives: $live"
ln -s "$SRC" "$TMPDIR/sampan-packing-link"
sampan sync "file://$SRC" "file://$T/other" --pack 8MiB --quiet
expect "the folder of a run that lives" "$(folders | grep -v link)" "$live"
expect "what a link leads to" "$(find "$SRC" -type f | wc -l)" 5
rm "$TMPDIR/sampan-packing-link"
kill -9 $pid
wait $pid 2>/dev/null || true
faults
sampan sync "file://$SRC" "s3://$BUCKET/alive" --pack 8MiB --quiet
expect "folders left" "$(folders)" ""

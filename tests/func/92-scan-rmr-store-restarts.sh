#!/usr/bin/env bash
# A store that is away for seconds, as one that restarts, fails neither a scan nor an rmr that is under way.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/s3mem.sh"
make_set --classes 40 --files 2 --size 200..3000
start_s3mem
sampan sync "file://$SRC" s3://b/kept/ --threads 8 --quiet
sampan sync "file://$SRC" s3://b/gone/ --threads 8 --quiet
store "/_set?late=100" >"$T/set"

sampan rmr s3://b/gone/ --yes --json >"$T/rmr" 2>"$T/rmr.err" &
rmr=$!
until_true 20 eval '[ "$(store /_count/COPY)" -gt 0 ]' || fail "rmr does not begin: $(cat "$T/rmr.err")"
listed=$(store /_count/LIST)
sampan scan s3://b/kept/ -o "$T/catalog" --json >"$T/scan" 2>"$T/scan.err" &
scan=$!
until_true 20 eval '[ "$(store /_count/LIST)" -gt $listed ]' || fail "scan does not begin: $(cat "$T/scan.err")"
store "/_set?down=1" >"$T/set"
sleep 3
store "/_set?down=0" >"$T/set"
wait $scan || fail "scan: $(cat "$T/scan" "$T/scan.err")"
wait $rmr || fail "rmr: $(cat "$T/rmr" "$T/rmr.err")"
expect "samples" "$(field samples <"$T/scan")" 80
expect "removed, failed" "$(field removed.0.removed <"$T/rmr") $(field removed.0.failed <"$T/rmr")" "80 0"
store "/_set?late=0" >"$T/set"
refused 3 "gone" sampan rmr s3://b/gone/ --yes
expect "objects, with the trash" "$(store /_objects)" 160

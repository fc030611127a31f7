#!/usr/bin/env bash
# A command that is interrupted says so and what it did, exits with 130, waits for no store, and leaves nothing half-done.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 12
use_s3_proxy p/
SET=s3://$BUCKET/p
begin() { # WORD… : of a command that will be interrupted
    : >"$T/log/proxy.access"
    "$S" "$@" >"$T/out" 2>"$T/err" &
    running=$!
}
ended() { ! kill -0 $running; }
asked() { [ "$(grep -c "$2" "$T/log/proxy.access")" -ge "$1" ]; }
interrupt() { # TEXT
    kill -INT $running
    until_true 4 ended || fail "it waits for the store"
    code=0
    wait $running || code=$?
    expect "exit code" "$code" 130
    grep -q "$1" "$T/err" || fail "it says: $(cat "$T/err")"
}

faults stall-head
for verb in "scan --cache ssd:$T/new/cache=1GiB" "warmup --cache ssd:$T/new/cache=1GiB" doctor "bench fetch"; do
    begin $verb "$SET"
    until_true 10 asked 1 GET
    interrupt "^sampan ${verb%% *}: interrupted"
    [ ! -e "$T/new" ] || fail "$verb left $(find "$T/new")"
done

begin sync "$SET" "file://$T/copy" --quiet
until_true 10 asked 1 GET
interrupt "^sampan sync: told to stop"

faults "stall-head key=class-001/"
begin sync "$SET" "file://$T/copy" --json --quiet
until_true 10 asked 12 "^GET .*class-000/.* 20[06] "
until_true 10 asked 1 "^GET .*class-001/"
interrupt "^sampan sync: told to stop"
[ -z "$(find "$T/copy" -name '.sampan-put-*')" ] || fail "half a file was left: $(find "$T/copy")"
expect "failures" "$(field failed <"$T/out")" 0
begin warmup "$SET" --cache "ssd:$T/warm=1GiB" --json
until_true 10 asked 12 "^GET .*class-000/.* 20[06] "
until_true 10 asked 1 "^GET .*class-001/"
interrupt "interrupted: what was fetched stays"
expect "how far" "$(field state <"$T/out") $(field samples <"$T/out")" "cancelled 24"
at_most "samples done" "$(field samples_done <"$T/out")" 12
faults
sampan warmup "$SET" --cache "ssd:$T/warm=1GiB" --json >"$T/out"
expect "samples, kept" "$(field samples <"$T/out") $(field already <"$T/out")" "24 12"

mount_set "$SET"
faults "latency=200ms key=.trash/"
begin evict "$MNT" --to 0 --store --yes --json
until_true 10 asked 1 "^PUT .*\.trash/.* 200 "
interrupt "interrupted: [0-9]* of 24 samples were removed .sampan scan $MNT"
s3 keys "$BUCKET" >"$T/keys"
expect "in the trash" "$(grep -c '^p/\.trash/' "$T/keys")" "$(field removed <"$T/out")"
expect "left" "$(grep -c '^p/class-' "$T/keys" || true)" "$((24 - $(field removed <"$T/out")))"
unmount
nothing_left

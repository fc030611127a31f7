#!/usr/bin/env bash
# Killed in the middle, and run again: the same bytes, no half object, no upload left behind.
. "$SAMPAN_TESTS/lib/common.sh"
use_s3
make_set --classes 2 --files 15 --size 1000..20000
head -c 26000000 /dev/urandom >"$SRC/large-1"
head -c 18000000 /dev/urandom >"$SRC/large-2"
start_proxy "$MOTO_URL"
export AWS_ENDPOINT_URL=$PROXY_URL
for stop in partNumber=1 class-001 partNumber=3; do
    : >"$T/log/proxy.access"
    "$S" sync "file://$SRC" "s3://$BUCKET/" --threads 2 --bwlimit 60MB --force-update --quiet >"$T/out" 2>&1 &
    pid=$!
    reached() { grep -q "$stop" "$T/log/proxy.access" || ! kill -0 $pid 2>/dev/null; }
    until_true 30 reached || fail "the sync does not reach $stop"
    kill -9 $pid 2>/dev/null || true
    wait $pid 2>/dev/null || true
    for key in $(s3 keys "$BUCKET"); do [ -e "$SRC/$key" ] || fail "a strange object: $key"; done
done
s3 begin "$BUCKET" large-1
s3 begin "$BUCKET" not-ours
sampan sync "file://$SRC" "s3://$BUCKET/" --json >"$T/out"
expect "failed" "$(field failed <"$T/out")" 0
at_least "uploads aborted" "$(field aborted_uploads <"$T/out")" 1
expect "uploads left behind" "$(s3 uploads "$BUCKET")" not-ours
mkdir "$T/boto"
s3 get "$BUCKET" "$T/boto"
same_bytes "$SRC" "$T/boto"

# a local destination: nothing half-written has a name
for n in 1 2; do
    "$S" sync "s3://$BUCKET/" "file://$T/dst" --bwlimit $((n * 25))MB --threads 4 --quiet >"$T/out" 2>&1 &
    pid=$!
    sleep 0.$((n * 3))
    kill -9 $pid 2>/dev/null || true
    wait $pid 2>/dev/null || true
    [ ! -d "$T/dst" ] || (cd "$T/dst" && find . -type f -print0 | xargs -0 -r -I{} cmp {} "$SRC/{}") || fail "half a file"
done
sampan sync "s3://$BUCKET/" "file://$T/dst" --quiet
same_bytes "$SRC" "$T/dst"
# a polite end says so, and takes back what it began
"$S" sync "file://$SRC" "s3://$BUCKET/again/" --bwlimit 1MB --quiet >"$T/out" 2>"$T/err" &
pid=$!
began() { s3 uploads "$BUCKET" | has again/; }
until_true 20 began || fail "no upload in parts"
kill -INT $pid
code=0
wait $pid || code=$?
expect "exit code" "$code" 130
expect "uploads left behind" "$(s3 uploads "$BUCKET")" not-ours

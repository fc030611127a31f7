#!/usr/bin/env bash
# Killed in the middle of one long object: the next run sends the parts that are missing, after it has
# compared those that are there with the source. Of a source that changed meanwhile nothing is taken over.
. "$SAMPAN_TESTS/lib/common.sh"
use_s3
head -c 17000000 /dev/urandom >"$SRC/long"
start_proxy "$MOTO_URL"
export AWS_ENDPOINT_URL=$PROXY_URL
requests() { grep -c "^$1 " "$T/log/proxy.access" || true; }
sent() { grep -o 'partNumber=[0-9]*' "$T/log/proxy.access" | sort -u | wc -l; } # however often each was tried
break_off() { # two of three parts are there; the second is on its way, and nobody takes it
    echo "stall-head key=partNumber=2" >"$T/proxy.rules"
    : >"$T/log/proxy.access"
    "$S" sync "file://$SRC" "s3://$BUCKET/" --quiet >"$T/out" 2>&1 &
    pid=$!
    all_out() { [ "$(sent)" -ge 3 ]; }
    until_true 60 all_out || fail "the parts are not sent: $(cat "$T/log/proxy.access")"
    kill -9 $pid
    wait $pid 2>/dev/null || true
    : >"$T/proxy.rules"
    : >"$T/log/proxy.access"
}

break_off
sampan sync "file://$SRC" "s3://$BUCKET/" --json >"$T/out" || fail "$(cat "$T/out")"
at_least "bytes that were there" "$(field resumed_bytes <"$T/out")" 8611392
at_most "parts sent" "$(sent)" 1
expect "uploads begun" "$(requests "POST [^ ]*?uploads=")" 0
mkdir "$T/boto"
s3 get "$BUCKET" "$T/boto"
same_bytes "$SRC" "$T/boto"

# The same length, other bytes.
s3 delete "$BUCKET" long
break_off
expect "uploads left behind" "$(s3 uploads "$BUCKET")" long
expect "objects" "$(s3 keys "$BUCKET")" ""
head -c 17000000 /dev/urandom >"$SRC/long"
sampan sync "file://$SRC" "s3://$BUCKET/" --json >"$T/out" || fail "$(cat "$T/out")"
expect "bytes that were there" "$(field resumed_bytes <"$T/out")" 0
expect "uploads begun" "$(requests "POST [^ ]*?uploads=")" 1
expect "uploads left behind" "$(s3 uploads "$BUCKET")" ""
s3 get "$BUCKET" "$T/boto"
same_bytes "$SRC" "$T/boto"

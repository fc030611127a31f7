#!/usr/bin/env bash
# On a warm cache the window of the known order is in the page cache before a reader comes: it asks for the
# tripwires alone.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 5 --files 100 --size 20000
spec="paddle-distributed,ranks=1,batch-size=16,shuffle=true,epoch=0"
mount_set "file://$SRC"
warm_all
unmount
mount_set "file://$SRC" --sampler "$spec"
case "$(status mode)" in *push*) ;; *) skip "this kernel offers no push: mode $(status mode)" ;; esac
window_pushed() {
    [ "$(status push.next)" = "$(status push.length)" ] && [ "$(status push.length)" = 500 ]
}
asked() { # bytes that readers asked the owner for, all figures of one moment
    sampan status "$MNT" --json | "$PYTHON" -c '
import json, sys
s = json.load(sys.stdin)
print(s["reads"]["bytes"] - s["push"]["bytes"])'
}
until_true 30 window_pushed || fail "the window of 500 samples is not pushed: $(status push)"
sampan bench epoch "$MNT" --sampler "$spec" --json >"$T/bench.json"
expect "samples" "$(field samples <"$T/bench.json")" 500
expect "errors" "$(field errors <"$T/bench.json")" 0
echo "bytes that readers asked for: $(asked), pushed: $(status push.bytes), of 10000000"
at_most "asked for, of which 1 % may be tripwires and pages that the kernel had no room for" "$(asked)" 100000
same_bytes "$SRC" "$MNT"
unmount

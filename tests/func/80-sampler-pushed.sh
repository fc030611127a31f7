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
window_pushed() {
    [ "$(status push.next)" = "$(status push.length)" ] && [ "$(status push.length)" = 500 ]
}
asked() { # reads that the owner was asked for, both figures of one moment
    sampan status "$MNT" --json | "$PYTHON" -c '
import json, sys
reads = json.load(sys.stdin)["reads"]
print(reads["total"] - reads["pushed"])'
}
reader_asks_for_five() {
    local before after
    mount_set "file://$SRC" --sampler "$spec"
    case "$(status mode)" in *push*) ;; *) skip "this kernel offers no push: mode $(status mode)" ;; esac
    until_true 30 window_pushed || fail "the window of 500 samples is not pushed: $(status push)"
    before=$(asked)
    sampan bench epoch "$MNT" --sampler "$spec" --json >"$T/bench.json"
    expect "samples" "$(field samples <"$T/bench.json")" 500
    expect "errors" "$(field errors <"$T/bench.json")" 0
    after=$(asked)
    echo "reads that the owner was asked for $((after - before)), pushed $(status reads.pushed), of 500"
    same_bytes "$SRC" "$MNT"
    unmount
    [ $((after - before)) -le 5 ]
}
in_one_of_five reader_asks_for_five || fail "readers ask for more than the tripwires"

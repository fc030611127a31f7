#!/usr/bin/env bash
# The share that was set, and a warmup of it in the background, outlive a daemon that is killed.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 4 --files 25
mount_set "file://$SRC" --bandwidth 20K
sampan set "$MNT" sampler=torch-distributed,ranks=4,batch-size=4 partition=2/4
sampan set "$MNT" epoch=3
share() { # but for what of it is here by now
    status partition 2>/dev/null | "$PYTHON" -c 'import json, sys; d = json.load(sys.stdin); del d["cached"], d["cached_bytes"]; print(json.dumps(d))'
}
before=$(share)
sampan warmup "$MNT" --background
kill -9 "$(daemon_pid)"
answers() { [ "$(status state 2>/dev/null)" = ready ] && [ "$(share)" = "$before" ]; }
until_true 30 answers || fail "after the death the share is $(status partition), it was $before"
sampan set "$MNT" bandwidth=100MB
done_() { [ "$(status warmup.state)" = done ]; }
until_true 30 done_ || fail "the warmup did not go on: $(status warmup)"
expect "what it brought" "$(sampan warmup "$MNT" --json | field already)" "$(status partition.samples)"
expect "what of the share is here" "$(status partition.cached)" "$(status partition.samples)"
unmount

#!/usr/bin/env bash
# The share that was set, and a warmup of it in the background, outlive a daemon that is killed.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 4 --files 25
mount_set "file://$SRC" --bandwidth 400K
sampan set "$MNT" sampler=torch-distributed,ranks=4,batch-size=4 partition=2/4
sampan set "$MNT" epoch=3
before=$(sampan status "$MNT" --json | field partition)
sampan warmup "$MNT" --background
kill -9 "$(daemon_pid)"
answers() { [ "$(status state 2>/dev/null)" = ready ] && [ "$(status partition 2>/dev/null)" = "$before" ]; }
until_true 30 answers || fail "after the death the share is $(status partition), it was $before"
sampan set "$MNT" bandwidth=100MB
done_() { [ "$(status warmup.state)" = done ]; }
until_true 30 done_ || fail "the warmup did not go on: $(status warmup)"
expect "what it brought" "$(sampan warmup "$MNT" --json | field already)" "$(echo "$before" | field samples)"
unmount

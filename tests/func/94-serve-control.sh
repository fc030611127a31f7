#!/usr/bin/env bash
# A server that does not find the mount in its machine's register is told the owner's socket; a wrong one is refused.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
make_set --classes 2 --files 5
mount_set "file://$SRC"
socket=$(sed -n 's/.*"socket":"\([^"]*\)".*/\1/p' "$SAMPAN_RUN_DIR"/*.json)
[ -S "$socket" ] || fail "no socket is registered: $socket"
mkdir "$T/elsewhere"
serve() { SAMPAN_RUN_DIR=$T/elsewhere "$S" serve --listen 127.0.0.1:0 --state "$T/serve" --token-file "$T/token" --mount "$MNT" "$@"; }
refused 3 "no mount" serve
refused "1|3" "--control" serve --control "$T/none.sock"
refused 2 "--control: goes with one --mount" serve --control "$socket" --mount "$T"
SAMPAN_RUN_DIR=$T/elsewhere start_serve --control "$socket"
expect_code 201 POST /v1/jobs -d '{"id":"w","type":"warmup","options":{}}'
wait_job w succeeded
expect "fetched" "$(answer result.fetched)" 10
stop_serve
expect "registered there" "$(find "$T/elsewhere" -name '*.json' | wc -l)" 0

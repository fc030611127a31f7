#!/usr/bin/env bash
# A warmup job of a share that is larger than the cache brings what fits, and fails with how much does not, as the
# command does.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
make_set --classes 4 --files 25 --size 100000
mount_set "file://$SRC" --cache "ssd:$CACHE=5MiB" --free-space 0
start_serve
expect_code 201 POST /v1/jobs -d '{"id":"w","type":"warmup","options":{"partition":"0/1","strategy":"sequence"}}'
wait_job w failed
unfit=$(answer result.unfit)
at_least "samples that do not fit" "$unfit" 40
expect "kept" "$(answer progress.items) $(answer result.samples)" "$((100 - unfit)) 100"
answer error | has "^$unfit of 100 samples (.*) of this share do not fit into .* from class-00" || fail "why: $(answer error)"
at_most "percent" "$(answer progress.percent)" 60
code=0
sampan warmup "$MNT" --quiet >"$T/out" 2>"$T/err" || code=$?
expect "exit code of the command" "$code" 1
stop_serve
unmount

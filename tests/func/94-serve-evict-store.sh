#!/usr/bin/env bash
# An evict job with "store" removes the oldest samples from the source, into its trash; one without leaves
# the source alone.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
make_set --classes 2 --files 10 --size 40000
for i in 0 1 2; do touch "$SRC/class-000/00000$i.bin"; done
mount_set "file://$SRC"
start_serve
files() { find "$SRC" -path "$SRC/.trash" -prune -o -type f -print | wc -l; }
expect_code 201 POST /v1/jobs -d '{"id":"cache","type":"evict","options":{"older_than_s":0}}'
wait_job cache succeeded
expect "the source keeps what the cache gives up" "$(files)" 20
expect_code 201 POST /v1/jobs -d '{"id":"size","type":"evict","options":{"to":400000,"store":true}}'
wait_job size succeeded
expect "removed" "$(answer result.removed) $(answer result.failed) $(answer progress.percent)" "10 0 100.0"
expect "in the source, and in its trash" "$(files) $(find "$SRC/.trash" -type f | wc -l)" "10 10"
expect "the mount shows it" "$(find "$MNT" -type f | wc -l)" 10
expect_code 201 POST /v1/jobs -d '{"id":"age","type":"evict","options":{"older_than_s":86400,"store":true,"skipTrash":true}}'
wait_job age succeeded
expect "for good" "$(answer result.removed) $(files) $(find "$SRC/.trash" -type f | wc -l)" "7 3 10"
for i in 0 1 2; do [ -f "$SRC/class-000/00000$i.bin" ] || fail "a young one went"; done
# What cannot be removed fails the job, and says which.
chmod 0555 "$SRC/class-000"
if ! [ -w "$SRC/class-000" ]; then
    expect_code 201 POST /v1/jobs -d '{"id":"stuck","type":"evict","options":{"to":0,"store":true,"skipTrash":true}}'
    wait_job stuck failed
    expect "why" "$(answer result.failed) $(answer result.failures.0.path | grep -c class-000)" "3 1"
fi
chmod 0755 "$SRC/class-000"
# What somebody who may write into the source linked to is neither found old nor removed by its path.
mkdir "$T/outside"
touch -d '3 days ago' "$T/outside/sample"
ln -s "$T/outside" "$SRC/linked"
expect_code 201 POST /v1/jobs -d '{"id":"far","type":"evict","options":{"older_than_s":86400,"store":true}}'
wait_job far failed
expect "why" "$(answer result.failures.0.path) $(answer result.failures.0.why | grep -c "behind a link")" "linked/sample 1"
expect_code 201 POST /v1/jobs -d '{"id":"path","type":"rmr","options":{"paths":["linked/sample"],"skipTrash":true}}'
wait_job path failed
[ -e "$T/outside/sample" ] || fail "what a link leads to is gone"
stop_serve
unmount

#!/usr/bin/env bash
# Two jobs of the cluster that touch the same are done one after the other on all servers, also where one of these hears
# of both late; one that touches something else goes on, and so does a cancel of one that was paused.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
. "$SAMPAN_TESTS/lib/cluster.sh"
need_mount
make_set --classes 2 --files 10
mount_all 2 "file://$SRC"
cluster 2
stop_member 1 KILL
see_states 0 "ok lost"
post() { at 0 expect_code 201 POST /v1/jobs -d "$1"; }
post '{"id":"clear","type":"clear","options":{"paths":["class-000"]}}'
post '{"id":"warm","type":"warmup"}'
post '{"id":"else","type":"clear","options":{"paths":["class-001"]}}'
post '{"id":"paths","type":"warmup","options":{"paths":["class-000"]}}'
post '{"id":"store","type":"rmr","options":{"uris":["s3://bucket/nothing"],"endpoint":"http://127.0.0.1:1"}}'
at 0 wait_job clear running
at 0 wait_job store failed
expect "those that wait" "$(for id in warm else paths; do at 0 job_state $id; done | xargs)" "pending pending pending"
at 0 expect_code 200 POST /v1/jobs/clear/pause
at 0 wait_job warm running
at 0 expect_code 200 DELETE /v1/jobs/clear
at 0 wait_job clear cancelled
start_member 1
for id in warm else paths; do at 0 wait_job $id succeeded; done
expect "on server 1" "$(at 1 job_state warm.p1) $(at 1 job_state else.p1)" "succeeded succeeded"
stop_cluster
unmount_all

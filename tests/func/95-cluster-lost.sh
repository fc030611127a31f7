#!/usr/bin/env bash
# A server that is lost in a cluster's job is named and asked again, not waited for for ever; what was
# decided meanwhile reaches it when it is back; and the job goes on after the death of server 0.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
. "$SAMPAN_TESTS/lib/cluster.sh"
need_mount
make_set --classes 3 --files 40 --size 20000
start_nginx
mount_all 3 "$HTTP_URL/" --bandwidth 10KB
cluster 3
: >"$T/log/nginx.access"
row() { at "$1" ask GET "/v1/jobs/$2" && answer "partitions.$3.$4" 2>/dev/null; }
row_is() { [ "$(row "$1" "$2" "$3" "$4")" = "$5" ]; }
row_has() { case $(row "$1" "$2" "$3" "$4") in *"$5"*) ;; *) false ;; esac; }
# Server 0 comes back, at another address, and those are told of it.
first_is_known() { at "$1" ask GET /v1/jobs && case $(answer lost) in *"server 0"*) false ;; esac; }
first_is_back() { # K…
    local k
    start_member 0
    for k in "$@"; do until_true 30 first_is_known "$k" || fail "server $k: $(cat "$T/answer")"; done
}
fast() { for k in 0 1 2; do sampan set "$T/mnt-$k" bandwidth="$1"; done; }

# killed while it works: its partition says so, and is done after all
at 1 expect_code 201 POST /v1/jobs -d '{"id":"w","type":"warmup"}'
until_true 30 row_is 1 w 2 state running || fail "$(cat "$T/answer")"
stop_member 2 KILL
until_true 30 row_has 1 w 2 error "server 2 (http://127.0.0.1:${member_ports[2]}) is lost" || fail "$(cat "$T/answer")"
expect "state of the job" "$(answer state)" running
at 0 expect_code 200 GET /v1/jobs/w.p1
at 0 expect_code 503 GET /v1/jobs/w.p2
# server 0 dies as well: whoever is asked for its jobs says so
stop_member 0 KILL
see_states 1 "lost ok lost"
at 1 expect_code 503 GET /v1/jobs/w
grep -q 'server 0, which has the cluster.s jobs, is lost' "$T/answer" || fail "$(cat "$T/answer")"
at 1 expect_code 503 POST /v1/jobs -d '{"id":"w9","type":"warmup"}'
at 1 expect_code 200 GET /v1/jobs
case $(answer lost) in *"server 0"*) ;; *) fail "$(cat "$T/answer")" ;; esac
expect "a child that is here" "$(answer jobs.0.id)" w.p1
start_member 0
start_member 2
fast 0
at 1 wait_job w succeeded
expect "samples" "$(answer result.samples)" 120
[ "$(answer tries)" -ge 2 ] || fail "server 0 did not resume it: $(cat "$T/answer")"
expect "samples fetched twice" "$(grep -o 'GET /class-00./[0-9]*\.bin' "$T/log/nginx.access" | sort | uniq -d | wc -l)" 0

# pause, resume and cancel reach the children; of one that is away, when it is back
fast 10KB
at 0 expect_code 201 POST /v1/jobs -d '{"id":"c","type":"clear"}'
at 0 wait_job c succeeded
at 2 expect_code 201 POST /v1/jobs -d '{"id":"p","type":"warmup"}'
until_true 30 row_is 0 p 1 state running || fail "$(cat "$T/answer")"
at 1 expect_code 200 POST /v1/jobs/p/pause
at 1 wait_job p paused
for k in 0 1 2; do row_is 1 p "$k" state paused || fail "$(cat "$T/answer")"; done
at 1 expect_code 200 GET /v1/jobs/p.p2
expect "the child" "$(answer state)" paused
at 1 expect_code 200 POST /v1/jobs/p/resume
until_true 30 row_is 0 p 2 state running || fail "$(cat "$T/answer")"
stop_member 2 KILL
at 1 expect_code 200 DELETE /v1/jobs/p
at 1 wait_job p cancelled
row_is 1 p 1 state cancelled || fail "$(cat "$T/answer")"
stop_member 0 KILL # also server 0 forgets nothing
start_member 2
first_is_back 1 2
until_true 30 row_is 1 p 2 state cancelled || { fail "$(cat "$T/answer")"; }
at 2 wait_job p.p2 cancelled

# what had become of a child by then its row says, too: one that ended, and one that was lost with its server's state
job_without_2() { # ID
    fast 10KB
    at 0 expect_code 201 POST /v1/jobs -d "{\"id\":\"clear-$1\",\"type\":\"clear\"}"
    at 0 wait_job "clear-$1" succeeded
    at 0 expect_code 201 POST /v1/jobs -d "{\"id\":\"$1\",\"type\":\"warmup\"}"
    until_true 30 row_is 0 "$1" 2 state running || fail "$(cat "$T/answer")"
    stop_member 2 KILL
    at 0 expect_code 200 DELETE "/v1/jobs/$1"
    at 0 wait_job "$1" cancelled
}
job_without_2 e
fast 0
cp "$PEERS" "$T/not-told"
PEERS=$T/not-told start_member 2 # the others look for it at its old address
at 2 wait_job e.p2 succeeded
items=$(answer progress.items)
write_peers
until_true 30 row_is 0 e 2 state succeeded || fail "$(cat "$T/answer")"
expect "error, samples" "$(answer partitions.2.error) $(answer partitions.2.progress.items)" " $items"
job_without_2 n
rm -r "$T/serve-2"
start_member 2
until_true 30 row_is 0 n 2 state cancelled || fail "$(cat "$T/answer")"

# server 0 is killed when it has just said yes to a cancel: it is one, everywhere
at 0 expect_code 201 POST /v1/jobs -d '{"id":"c2","type":"clear"}'
at 0 wait_job c2 succeeded
at 2 expect_code 201 POST /v1/jobs -d '{"id":"k","type":"warmup"}'
until_true 30 row_is 0 k 1 state running || fail "$(cat "$T/answer")"
at 0 expect_code 200 DELETE /v1/jobs/k
stop_member 0 KILL
first_is_back 1 2
at 0 wait_job k cancelled
for k in 0 1 2; do row_is 0 k "$k" state cancelled || fail "$(cat "$T/answer")"; done
at 2 wait_job k.p2 cancelled

# a cancel of one that is paused reaches them, too
at 2 expect_code 201 POST /v1/jobs -d '{"id":"pk","type":"warmup"}'
until_true 30 row_is 0 pk 2 state running || fail "$(cat "$T/answer")"
at 1 expect_code 200 POST /v1/jobs/pk/pause
at 1 wait_job pk paused
at 1 expect_code 200 DELETE /v1/jobs/pk
at 1 wait_job pk cancelled
for k in 0 1 2; do row_is 1 pk "$k" state cancelled || fail "$(cat "$T/answer")"; done
at 2 wait_job pk.p2 cancelled

# Server 0 lost its state: a job posted again under an old id is not the one that the others have ended.
fast 0
for type in clear warmup; do
    at 1 expect_code 201 POST /v1/jobs -d "{\"id\":\"old-$type\",\"type\":\"$type\"}"
    at 1 wait_job "old-$type" succeeded
done
at_least "cached" "$(mount_status 1 cache.samples)" 20
stop_member 0
rm -r "$T/serve-0"
first_is_back 1 2
see_states 0 "ok ok ok"
at 0 expect_code 201 POST /v1/jobs -d '{"id":"old-clear","type":"clear"}'
at 0 wait_job old-clear succeeded
for k in 0 1 2; do expect "cached by $k" "$(mount_status "$k" cache.samples)" 0; done

# one that stays away is given up; the others' work counts
stop_member 1
see_states 0 "ok lost ok"
fast 0
at 2 expect_code 201 POST /v1/jobs -d '{"id":"g","type":"warmup","options":{"lost_after_s":2}}'
at 2 wait_job g failed
case $(answer error) in *"1 of 3 partitions failed; partition 1: server 1 "*"given up after 2 s"*) ;; *) fail "$(answer error)" ;; esac
expect "rows" "$(answer partitions.0.state) $(answer partitions.1.state) $(answer partitions.2.state)" "succeeded failed succeeded"
[ "$(answer result.samples)" -gt 20 ] || fail "$(cat "$T/answer")"
stop_cluster
unmount_all

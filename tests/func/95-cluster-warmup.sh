#!/usr/bin/env bash
# A warmup posted to any server warms every server's share: shares are disjoint, their union is the set;
# its answer is the sum, and any server can be asked for it.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
. "$SAMPAN_TESTS/lib/cluster.sh"
need_mount
make_set --classes 4 --files 30
start_nginx
mount_all 3 "$HTTP_URL/"
cluster 3
: >"$T/log/nginx.access"
body='{"id":"w","type":"warmup","options":{"verify":true}}'
at 1 expect_code 201 POST /v1/jobs -d "$body"
at 2 wait_job w succeeded
expect "samples" "$(answer result.samples) $(answer progress.items) $(answer result.verified)" "120 120 true"
expect "rows" "$(answer partitions.0.state) $(answer partitions.1.state) $(answer partitions.2.state)" \
    "succeeded succeeded succeeded"
expect "scope" "$(answer options.scope)" cluster
cached=0
for k in 0 1 2; do
    n=$(mount_status "$k" cache.samples)
    [ "$n" -gt 10 ] || fail "server $k keeps $n samples"
    cached=$((cached + n))
done
expect "samples kept by all" "$cached" 120
expect "samples fetched twice" "$(grep -o 'GET /class-00./[0-9]*\.bin' "$T/log/nginx.access" | sort | uniq -d | wc -l)" 0
# the same again, from anywhere; a child where it is, and from elsewhere
at 2 expect_code 200 POST /v1/jobs -d "$body"
at 2 expect_code 409 POST /v1/jobs -d '{"id":"w","type":"warmup"}'
at 0 expect_code 200 GET /v1/jobs/w.p1
expect "its share" "$(answer options.partition)" 1/3
at 2 expect_code 200 GET /v1/jobs/w.p1
at 1 expect_code 404 GET /v1/jobs/w.p7
at 1 expect_code 404 GET /v1/jobs/none
at 2 expect_code 200 GET '/v1/jobs?type=warmup'
expect "jobs" "$(answer jobs.0.id) $(answer jobs.1.id)" "w.p2 w"

# an id that looks like a child's, and is none: any server can be asked for it, too
at 1 expect_code 201 POST /v1/jobs -d '{"id":"x.p1","type":"clear"}'
for k in 0 1 2; do
    at "$k" wait_job x.p1 succeeded
    at "$k" expect_code 404 GET /v1/jobs/y.p2
done
at 0 expect_code 201 POST /v1/jobs -d '{"id":"c0","type":"clear"}'
at 0 wait_job c0 succeeded
# a list by its digest: clean, and every server its share of it
{ cd "$SRC" && find . -name '*.bin' | sort | head -40; } >"$T/list"
echo "$(tail -n 1 "$T/list")" >>"$T/list"
mkdir -p "$T/serve-0/lists" # of a server that was killed while it wrote
touch -d "2 hours ago" "$T/serve-0/lists/.new-abcdef"
at 2 expect_code 200 POST /v1/lists --data-binary "@$T/list"
[ ! -e "$T/serve-0/lists/.new-abcdef" ] || fail "half a list stays"
expect "paths" "$(answer paths) $(answer duplicates)" "40 1"
digest=$(answer digest)
at 1 expect_code 200 GET "/v1/lists/$digest"
expect "digest of the list" "$(sha256sum <"$T/answer" | cut -d' ' -f1)" "$digest"
at 1 expect_code 201 POST /v1/jobs -d "{\"id\":\"l\",\"type\":\"warmup\",\"options\":{\"list\":\"$digest\"}}"
at 0 wait_job l succeeded
expect "samples of the list" "$(answer result.samples)" 40
cached=0
for k in 0 1 2; do cached=$((cached + $(mount_status "$k" cache.samples))); done
expect "samples kept by all" "$cached" 40
printf 'a\n../b\n' | at 0 expect_code 400 POST /v1/lists --data-binary @-
grep -q 'line 2' "$T/answer" || fail "the error names no line: $(cat "$T/answer")"
at 0 expect_code 400 POST /v1/lists
at 1 expect_code 400 POST /v1/jobs -d "{\"id\":\"m\",\"type\":\"warmup\",\"options\":{\"list\":\"${digest//[a-f]/0}\"}}"
at 1 expect_code 404 GET "/v1/lists/${digest//[a-f]/0}"
echo class-000/nowhere.bin | at 0 expect_code 200 POST /v1/lists --data-binary @-
at 1 expect_code 201 POST /v1/jobs -d "{\"id\":\"n\",\"type\":\"warmup\",\"options\":{\"list\":\"$(answer digest)\"}}"
at 1 wait_job n failed
case $(answer error) in *class-000/nowhere.bin*) ;; *) fail "error: $(answer error)" ;; esac

# what is set goes with it: the order of a sampler makes other shares
at 2 expect_code 400 POST /v1/jobs -d '{"id":"x","type":"warmup","options":{"sampler":"paddle-distribute"}}'
grep -q 'options.sampler' "$T/answer" || fail "the error names no place: $(cat "$T/answer")"
at 1 expect_code 400 POST /v1/jobs -d '{"id":"x","type":"warmup","options":{"partition":"0/3"}}'
at 1 expect_code 400 POST /v1/jobs -d '{"id":"x","type":"warmup","options":{"scope":"node","partition":"0/0"}}'
at 1 expect_code 400 POST /v1/jobs -d '{"id":"x","type":"warmup","options":{"scope":"planet"}}'
at 1 expect_code 201 POST /v1/jobs -d '{"id":"r","type":"warmup","options":{"sampler":"paddle-distributed,ranks=3,batch-size=8,epoch=2","strategy":"random"}}'
at 0 wait_job r succeeded
expect "samples" "$(answer result.samples)" 120
# a node's own job stays its own
at 2 expect_code 201 POST /v1/jobs -d '{"id":"c2","type":"clear","options":{"scope":"node"}}'
at 2 wait_job c2 succeeded
expect "kept by server 2" "$(mount_status 2 cache.samples)" 0
[ "$(mount_status 1 cache.samples)" -gt 10 ] || fail "server 1 was cleared, too"
at 0 expect_code 404 GET /v1/jobs/c2
at 0 expect_code 201 POST /v1/jobs -d '{"id":"c","type":"clear"}'
at 1 wait_job c succeeded
expect "kept by server 1" "$(mount_status 1 cache.samples)" 0
at 1 expect_code 201 POST /v1/jobs -d '{"id":"s","type":"scan"}'
at 1 wait_job s succeeded
expect "samples of the scan" "$(answer result.samples)" 120

stop_cluster
unmount_all

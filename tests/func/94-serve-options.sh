#!/usr/bin/env bash
# Options of jobs that are wrong are refused with the place where they are, and nothing is begun; a share
# of more partitions than there are samples fails the job and says so.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
make_set --classes 1 --files 3
mount_set "file://$SRC"
start_serve

bad() { # TYPE OPTIONS WHERE
    expect_code 400 POST /v1/jobs -d "{\"id\":\"x\",\"type\":\"$1\",\"options\":$2}"
    case $(answer error) in *"$3"*) ;; *) fail "$1 ${2:0:200}: the error does not name $3: $(answer error)" ;; esac
}
bad warmup '{"paths":7}' options.paths
bad warmup '{"paths":["a",7]}' 'options.paths[1]'
bad warmup '{"paths":["a/../../b"]}' options.paths
for type in warmup clear rmr; do bad $type '{"paths":["class-000",""]}' 'options.paths[1]: is empty'; done
bad warmup '{"verify":"yes"}' options.verify
bad warmup '{"verify":true,"verify":true}' verify
bad warmup '{"speed":1}' speed
bad warmup '{"strategy":"magic"}' options.strategy
bad warmup '{"sampler":"torch-random,speed=1"}' options.sampler
bad warmup '{"sampler":{"name":"torch-random"}}' options.sampler
bad warmup '{"partition":"3/3"}' options.partition
bad warmup '{"partition":"0/0"}' options.partition
bad warmup '{"list":"../../etc/passwd"}' options.list
bad warmup '{"scope":7}' options.scope
bad warmup '{"scope":"planet"}' options.scope
bad warmup '{"lost_after_s":0}' options.lost_after_s
bad evict '{"to":-1}' options.to
bad evict '{"to":99999999999999999999}' to
bad evict '{"to":1,"older_than_s":1}' options
bad evict '{"to":1,"skipTrash":true}' options.skipTrash
bad evict '{"unused_for_s":1,"store":true}' options.unused_for_s
bad sync '{"sources":["s3://a/b"],"destination":"s3://c/d","share":"2/2"}' options.share
bad sync '{"sources":["s3://a/b"],"destination":"s3://c/d","share":"0/2","pack":8388608}' options.share
bad sync '{"sources":["s3://a/b"],"destination":"s3://c/d","rules":[{"include":"a"},{"include":"a","exclude":"b"}]}' 'options.rules[1]'
bad sync '{"sources":["s3://a/b"],"destination":"s3://c/d","threads":1000}' options.threads
for no in '"limit":1,"deleteDst":true' '"existing":true,"ignoreExisting":true' '"pack":1' '"pack":8388608,"perms":true' '"pack":8388608,"limit":1'; do
    bad sync "{\"sources\":[\"s3://a/b\"],\"destination\":\"s3://c/d\",$no}" options:
done
bad rmr '{"paths":["a"],"skipTrash":1}' options.skipTrash
bad rmr '{"uris":["s3://a/b","c"]}' 'options.uris[1]'
bad warmup "$(printf '[%.0s' $(seq 5000))$(printf ']%.0s' $(seq 5000))" "deeper than 64 levels"
bad warmup "{\"paths\":$(printf '[%.0s' $(seq 100))$(printf ']%.0s' $(seq 100))}" "deeper than 64 levels"
expect_code 200 GET /v1/jobs
expect "jobs" "$(answer jobs)" "[]"

expect_code 201 POST /v1/jobs -d '{"id":"m","type":"warmup","options":{"partition":"0/4"}}'
wait_job m failed
case $(answer error) in *partition*) ;; *) fail "$(answer error)" ;; esac
expect_code 201 POST /v1/jobs -d '{"id":"n","type":"warmup","options":{"paths":["class-000/none.bin"]}}'
wait_job n failed
case $(answer error) in *class-000/none.bin*) ;; *) fail "$(answer error)" ;; esac
# the same id with other options is another job, in whatever order they stand
expect_code 409 POST /v1/jobs -d '{"id":"n","type":"warmup","options":{"paths":["class-000/none.bin"],"verify":true}}'
expect_code 409 POST /v1/jobs -d '{"id":"n","type":"clear","options":{"paths":["class-000/none.bin"]}}'
expect_code 200 POST /v1/jobs -d '{"options":{"verify":false,"paths":["/class-000/none.bin"]},"type":"warmup","id":"n"}'

# The runs of a schedule have its id and their time: they keep to the same limit, so a template's id is shorter.
submit() { # CODE LENGTH FIELDS
    expect_code "$1" POST /v1/jobs -d "{\"id\":\"$(printf "%$2s" "" | tr ' ' x)\",\"type\":\"warmup\"$3}"
}
submit 400 201 ""
submit 400 180 ',"schedule":"@yearly"'
case $(answer error) in *"want 1 to 179 letters"*) ;; *) fail "$(answer error)" ;; esac
submit 201 179 ',"schedule":"@yearly"'
expect_code 200 DELETE "/v1/jobs/$(answer id)"
submit 201 190 ',"schedule":""' # none
wait_job "$(answer id)" succeeded
submit 201 200 ""
wait_job "$(answer id)" succeeded
# The root is all of the set, also where options are handed on as they were kept.
expect_code 201 POST /v1/jobs -d '{"id":"root","type":"warmup","options":{"paths":["//"]}}'
expect "kept" "$(answer options.paths)" '["/"]'
wait_job root succeeded
expect "samples" "$(answer result.samples)" 3
expect_code 200 POST /v1/jobs -d '{"id":"root","type":"warmup","options":{"paths":["/"]}}'
expect_code 201 POST /v1/jobs -d '{"id":"clear-root","type":"clear","options":{"paths":["/"]}}'
wait_job clear-root succeeded
expect "cached" "$(status cache.samples)" 0
stop_serve
unmount

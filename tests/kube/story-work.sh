# shellcheck shell=bash
# Sourced by tests/kube/story.sh: parts of it that need no PaddleJob.

# --- the user's own verbs: kubectl finds its plugin on the PATH ---------------------------------------------
by_plugin() {
    local sampan=(env "PATH=$PWD/deploy/kubectl:$PATH" kubectl sampan -n $set_ns) k
    claim "kubectl sampan status" shows '^pictures .* 2/2 +Ready' "${sampan[@]}" status
    claim "of one set" shows "^$set_ns/pictures: Ready, ([0-9.]+ [KM]iB) of \\1 cached, 2/2 servers, version [0-9a-f]{64}" "${sampan[@]}" status pictures
    for k in 0 1; do
        claim "with who keeps partition $k" shows "^  partition $k: ([0-9]+) of \\1 samples on node-[012] \\(pictures-runtime-$k\\)" "${sampan[@]}" status pictures
    done
    claim "kubectl sampan top" eval 'timeout 5 "${sampan[@]}" top pictures >"$W/top"; [ $? = 124 ] && [ "$(grep -c "^$set_ns/pictures: Ready" "$W/top")" -ge 2 ]'
    claim "kubectl sampan warmup --wait" shows '^samplejob/pictures-warmup-' "${sampan[@]}" warmup pictures class-001 --verify --wait
    claim "of what is not in the set fails, with its name" fails 'Failed: .*class-999: no such name' "${sampan[@]}" warmup pictures class-999 --wait
    claim "of no set is refused by kubectl's words" fails '"nothing" not found' "${sampan[@]}" status nothing
    claim "kubectl sampan logs of a partition" shows . "${sampan[@]}" logs pictures --partition 1
    claim "of all" eval '"${sampan[@]}" logs pictures >"$W/logs" && grep "^\[pod/pictures-runtime-0/" "$W/logs" && grep "^\[pod/pictures-runtime-1/" "$W/logs"'
    kubectl -n $set_ns delete samplejob --all --timeout=60s >/dev/null
}

# --- each kind of work, at real servers ---------------------------------------------------------------------
# A set that is copied to a store of its own, changed there, and copied again.
work() { # NAME <<SPEC
    { printf 'apiVersion: batch.paddlepaddle.org/v1alpha1\nkind: SampleJob\nmetadata: {name: %s, namespace: %s}\nspec:\n' "$1" $set_ns && sed 's/^/  /'; } | apply
}
work_is() { kubectl -n $set_ns wait --for=jsonpath='{.status.phase}'="$2" "samplejob/$1" --timeout=120s; } # NAME PHASE
copy_has() { until_true 60 shows "^$1\$" field sampleset copy "$2" -n $set_ns; }                     # PATTERN PATH
copy_is() { # PARTITIONS: Ready with so many, on so many nodes
    until_true 120 eval '[ "$(field sampleset copy "{.status.phase} {.status.runtimeStatus.runtimeReady}" -n $set_ns)" = "Ready '"$1/$1"'" ] &&
        [ "$(kubectl get nodes -l "sampan.io/$set_ns.copy" -o name | wc -l)" = '"$1"' ]'
}
copied() { keys_of outputs | grep '^copy/class-' | sed 's|/[^/]*$||' | sort | uniq -c | tr -s ' \n' ' '; }
all_copied=' 40 copy/class-000 40 copy/class-001 40 copy/class-002 '
works() {
    apply <<END
apiVersion: batch.paddlepaddle.org/v1alpha1
kind: SampleSet
metadata: {name: copy, namespace: $set_ns}
spec:
  partitions: 2
  source: {uri: "s3://samples/pictures", endpoint: "$logged", region: us-east-1}
  sync: {destination: "minio://${logged#http://}/outputs/copy"}
  secretRef: {name: keys}
  cache: {levels: [{mediumType: SSD, path: /var/cache/copies, cacheSize: 64}]}
END
    claim "a set that is copied first is Ready" kubectl -n $set_ns wait --for=jsonpath='{.status.phase}'=Ready sampleset/copy --timeout=120s
    claim "all is at its destination" eval '[ "$(copied | tee /dev/stderr)" = "$all_copied" ] && copy_has 120 "{.status.cacheStatus.totalFiles}"'
    claim "a third partition is added" kubectl -n $set_ns patch sampleset copy --type=merge -p '{"spec":{"partitions":3}}'
    claim "and served, on a third node" copy_is 3
    claim "it is taken back" kubectl -n $set_ns patch sampleset copy --type=merge -p '{"spec":{"partitions":2}}'
    claim "and gone, with its label" copy_is 2
    work all <<<'{type: warmup, sampleset: copy, warmupOptions: {strategyName: random, partitions: 2}}'
    claim "a warmup, spelled as upstream does" eval 'work_is all Succeeded && shows "120/120" field samplejob all "{.status.progress}" -n $set_ns'
    work none <<<'{type: clear, sampleSetRef: {name: copy}}'
    claim "a clear leaves nothing cached" eval 'work_is none Succeeded && copy_has "0 B" "{.status.cacheStatus.cachedSize}"'
    work some <<<'{type: warmup, sampleSetRef: {name: copy}, warmupOptions: {paths: [class-000]}, dependsOn: [none]}'
    claim "a warmup of one folder" eval 'work_is some Succeeded && shows "40/40" field samplejob some "{.status.progress}" -n $set_ns'
    work less <<<'{type: evict, sampleSetRef: {name: copy}, evictOptions: {toSize: 0}}'
    claim "an evict to nothing" eval 'work_is less Succeeded && copy_has "0 B" "{.status.cacheStatus.cachedSize}"'
    work gone <<<'{type: rmr, sampleSetRef: {name: copy}, rmrOptions: {paths: [class-002], skipTrash: true}}'
    claim "an rmr takes a folder out of the store" eval 'work_is gone Succeeded && [ "$(copied | tee /dev/stderr)" = "${all_copied% 40*} " ]'
    work look <<<'{type: scan, sampleSetRef: {name: copy}}'
    claim "a scan sees that" eval 'work_is look Succeeded && copy_has 80 "{.status.cacheStatus.totalFiles}"'
    work again <<<'{type: sync, sampleSetRef: {name: copy}, syncOptions: {include: "class-002/*"}}'
    claim "a sync brings it back" eval 'work_is again Succeeded && [ "$(copied | tee /dev/stderr)" = "$all_copied" ]'
    work never <<<'{type: rmr, sampleSetRef: {name: copy}, rmrOptions: {paths: [../pictures]}}'
    claim "a path that leads out of the set is refused" eval 'work_is never Failed && shows "leads out of the set" field samplejob never "{.status.conditions[*].message}" -n $set_ns'
    claim "in all this nothing of the source was changed" eval '[ "$(keys_of samples | grep -c ^pictures/class-)" = 120 ]'
    claim "the set goes, with its jobs" eval 'kubectl -n $set_ns delete samplejob --all --timeout=60s && kubectl -n $set_ns delete sampleset copy --timeout=120s'
    claim "of it nothing is left" until_true 60 no_object_of "copy" -n $set_ns
}

# --- a Job of Kubernetes' own, without the operator -----------------------------------------------------------
# deploy/examples/paddle-cluster-job.yaml as it stands, but for the folder that all nodes share.
plain_job() {
    . tests/lib/ratings.sh
    local share="$W/mfs" job="$W/mfs/paddle-cluster-job" n
    make_ratings "$W/ratings"
    mkdir -p "$share"
    claim "a set is dealt out" shows '^600 samples in 3 parts' "$SAMPAN_BUILD/bin/sampan-train" split --parts 3 "$W/ratings" "$job"
    mkdir "$job/recommendation"
    printf 'model = "movie"\ndata = "./data"\nbatch_size = 20\n' >"$job/recommendation/trainer_config.py"
    sed "s|hostPath: {path: [^}]*}|hostPath: {path: $share}|" deploy/examples/paddle-cluster-job.yaml >"$W/plain.yaml"
    claim "the example applies" kubectl apply -f "$W/plain.yaml"
    claim "its pods find each other, train and end" kubectl wait --for=condition=Complete job/paddle-cluster-job --timeout=240s
    claim "all three with the same servers" eval '[ "$(kubectl logs -l job-name=paddle-cluster-job --tail=-1 | grep -o -- "--pservers=[0-9.,]*" | sort | uniq -c | tee /dev/stderr | wc -l)" = 1 ]'
    claim "to the last of ten passes" test -e "$job/output/pass-00009/done"
    claim "which its first trainer tells" grep 'Pass=9 done: .*samples=600' "$job/output/node_0/train.log"
    for n in 0 1 2; do claim "trainer $n's log is on the share" grep -- "--trainer_id=$n " "$job/output/node_$n/train.log"; done
    claim "deleted it leaves nothing" eval 'kubectl delete -f "$W/plain.yaml" --timeout=60s && until_true 60 no_object_of paddle-cluster-job'
}

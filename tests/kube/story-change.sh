# shellcheck shell=bash
# Sourced by tests/kube/story.sh: sets that change by themselves, and a job with parameter servers.

set_of() { # NAME PREFIX CACHE-MIB <<SPEC: more of its spec
    {
        printf 'apiVersion: batch.paddlepaddle.org/v1alpha1\nkind: SampleSet\nmetadata: {name: %s, namespace: %s}\nspec:\n' "$1" $set_ns
        printf '  source: {uri: "s3://samples/%s", endpoint: "%s", region: us-east-1}\n  secretRef: {name: keys}\n' "$2" "$logged"
        printf '  cache: {levels: [{mediumType: SSD, path: /var/cache/%s, cacheSize: %s}]}\n' "$1" "$3"
        sed 's/^/  /'
    } | apply
}
serves() { # NAME N: Ready with so many servers, on so many nodes
    [ "$(field sampleset "$1" '{.status.phase} {.status.runtimeStatus.runtimeReady}' -n $set_ns)" = "Ready $2/$2" ] &&
        [ "$(kubectl get nodes -l "sampan.io/$set_ns.$1" -o name | wc -l)" = "$2" ]
}
scaled() { field sampleset "$1" '{.status.conditions[?(@.type=="Autoscaled")].reason}' -n $set_ns; }
set_goes() { kubectl -n $set_ns delete sampleset "$1" --timeout=60s && until_true 60 no_object_of "$1" -n $set_ns; }
reader_of() { # SET COMMAND: a pod beside its first server
    apply <<END
apiVersion: v1
kind: Pod
metadata: {name: reader-of-$1, namespace: $set_ns}
spec:
  nodeName: $(node_of "$1-runtime-0" -n $set_ns)
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: "sampan-test/train:1", command: [sh, -c, "$2"], volumeMounts: [{name: data, mountPath: /data}]}
  volumes: [{name: data, persistentVolumeClaim: {claimName: $1}}]
END
    kubectl -n $set_ns wait --for=condition=Ready "pod/reader-of-$1" --timeout=90s
}

# A set of 18 MiB whose nodes have 10 MiB each: by capacity, then by hits. (Pages that a reader holds mapped, as
# it does reference files of which it has no hash, are not dropped, and read no second time.)
scales() {
    local i
    mkdir -p "$W/large/a"
    for i in $(seq 96); do head -c 200000 /dev/urandom >"$W/large/a/$i"; done
    in_bucket samples "$W/large" large/
    set_of wide large 10 <<<'autoscale: {minPartitions: 1, maxPartitions: 3}'
    claim "a set larger than a node gets as many as hold it" until_true 120 serves wide 3
    claim "of which no server failed" eval '! kubectl -n $set_ns get events | grep "ServerFails.*sampleset/wide"'
    kubectl -n $set_ns patch sampleset wide --type=merge -p '{"spec":{"autoscale":{"minPartitions":1,"maxPartitions":2}}}' >/dev/null
    claim "but no more than it may have" until_true 120 serves wide 2
    claim "which it says are too few" shows '^AtMaximum$' scaled wide
    claim "it goes" set_goes wide

    set_of hits large 10 <<<'autoscale: {minPartitions: 1, maxPartitions: 3, by: HitRatio}'
    claim "by hits it begins with one" until_true 120 serves hits 1
    claim "a pod reads what one node cannot keep" reader_of hits 'while true; do verify-reader --passes 1 --threads 1 --hash --drop /data /data; done'
    claim "then there are two" until_true 120 serves hits 2
    kubectl -n $set_ns delete pod reader-of-hits --timeout=60s >/dev/null
    claim "it goes" set_goes hits
}

# The clock is asked every minute. (Of another set that had its name nothing is in the way.)
refreshes() {
    mkdir -p "$W/grows/a"
    for i in $(seq 20); do echo "$i" >"$W/grows/a/$i"; done
    in_bucket samples "$W/grows" grows/
    set_of grows grows 64 <<<'refresh: {cron: "* * * * *"}'
    claim "a set with a schedule is Ready" until_true 120 serves grows 1
    claim "a pod has it" reader_of grows 'sleep 100000'
    echo 21 >"$W/grows/a/21"
    in_bucket samples "$W/grows" grows/
    claim "what the bucket gains a running pod sees, without being asked" until_true 150 eval '[ "$(kubectl -n $set_ns exec reader-of-grows -- cat /data/a/21)" = 21 ]'
    claim "the set counts it" until_true 30 shows '^21$' field sampleset grows '{.status.cacheStatus.totalFiles}' -n $set_ns
    claim "and says that it looked" shows '^True$' field sampleset grows '{.status.conditions[?(@.type=="Refreshed")].status}' -n $set_ns
    kubectl -n $set_ns delete pod reader-of-grows --timeout=60s >/dev/null
    claim "it goes" set_goes grows
}

# The recommender, its parameters on two pods.
by_servers() {
    . tests/lib/ratings.sh
    local role k train
    make_ratings "$W/rated"
    in_bucket samples "$W/rated" rated/
    set_of rated rated 64 <<<'partitions: 2'
    claim "a set of ratings is Ready" until_true 120 serves rated 2
    train='[sampan-train, --model, movie, --data, /data, --batch_size, "20", --num_passes, "3", --save_dir, /output/out]'
    {
        printf 'apiVersion: batch.paddlepaddle.org/v1\nkind: PaddleJob\nmetadata: {name: rates}\nspec:\n  cleanPodPolicy: Never\n'
        printf '  sampleSetRef: {name: rated, mountPath: /data}\n  output: {sampleSetRef: {name: rated, namespace: %s}, mountPath: /output}\n' $set_ns
        for role in ps worker; do
            printf '  %s: {replicas: 2, template: {spec: {containers: [{name: train, image: "sampan-test/train:1", command: %s}]}}}\n' $role "$train"
        done
    } | apply
    claim "a job with parameter servers runs to its end" job_is rates Completed
    claim "its mode is PS" shows '^PS$' field pdj rates '{.status.mode}'
    for k in 0 1; do
        claim "server $k had both trainers, and ended with them" eval "shows 'all 2 trainers are here' kubectl logs rates-ps-$k && shows 'all trainers have ended' kubectl logs rates-ps-$k"
    done
    claim "trainers end with the same loss" eval '[ "$(for k in 0 1; do kubectl logs rates-worker-$k | grep -o "done: step=.*"; done | tee /dev/stderr | sort -u | wc -l)" = 1 ]'
    claim "its last checkpoint is in the bucket" eval 'keys_of samples | grep "^rated/.sampan-output/default/rates/out/pass-00002/done$"'
    claim "deleted it leaves nothing" deleted_without_trace rates
    claim "the set goes" set_goes rated
}

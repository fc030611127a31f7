# shellcheck shell=bash
# Sourced by tests/kube/run: the story of the articles, on three real nodes, by nothing but real components: the chart is
# installed; a SampleSet over a bucket is listed and warmed (story-work.sh: each type of SampleJob works on another one, and a
# Job trains without the operator; story-change.sh: sets that change by themselves, and parameter servers); a PaddleJob's
# workers run where their halves are, train to the end and write their checkpoints to the set's store; then again while
# operator, servers, plugin, owners, a training process and a node are killed in turn; the release is uninstalled under a
# running job, and installed again; then the set goes back to an older version and on again; then all is deleted. (The
# kustomizations are deployed by the parts csi and operator.)
# STORY_PARTS='deployed warmed' runs these of its parts alone.
#
# The set lies in paddle-system and the jobs name no namespace, as in the article. The store's requests pass a web server
# that writes them down: its log is the judge of what was asked for.
. tests/kube/nodes.sh
. tests/kube/story-work.sh
. tests/kube/story-change.sh

logged=http://10.90.0.1:9010 set_ns=paddle-system goal_never=1000000000
logged_store_up() {
    cat >"$W/nginx.conf" <<END
daemon off; pid $W/nginx.pid; error_log $W/nginx.error; worker_processes 1;
$([ "$(id -u)" != 0 ] || echo "user root;")
events { worker_connections 1024; }
http {
    log_format store '\$request_method \$request_uri \$status'; access_log $W/store.access store;
    client_max_body_size 0; client_body_temp_path $W/n1; proxy_temp_path $W/n2; fastcgi_temp_path $W/n3; uwsgi_temp_path $W/n4; scgi_temp_path $W/n5;
    server {
        listen 10.90.0.1:9010;
        location / { proxy_pass $store; proxy_set_header Host \$http_host; proxy_http_version 1.1; proxy_buffering off; }
    }
}
END
    tests/kube/cluster lan nginx -p "$W" -c "$W/nginx.conf" 2>>"$W/nginx.error" &
    children+=($!)
    until_true 30 cluster lan curl -s -o "$W/up" "$logged/minio/health/ready"
}
mark() { wc -l <"$W/store.access"; }
asked_since() { tail -n "+$(($1 + 1))" "$W/store.access" | grep -v '/\.sampan-output/\|prefix=[^ &]*\.sampan-output' || true; } # but for results

story_images() {
    csi_images
    deploy/images/build --bin "$SAMPAN_BUILD/bin" --out "$W/images" sampan operator trainer
    mapfile -t files < <(reference_files "$W/pictures")
    tests/kube/image sampan-test/train:1 "$W/images/train.tar" --box "$SAMPAN_BUILD/tools/verify-reader" "$SAMPAN_BUILD/bin/sampan-train" "${files[@]}"
    cluster load "$W"/images/*.tar
}

deployed() {
    kubectl label --overwrite node node-0 node-role.kubernetes.io/control-plane= >/dev/null
    claim "the chart installs all there is" installed
    # `helm --wait` is content with one less, as its update strategy is.
    claim "the driver's pods are ready on three nodes" until_true 60 shows '^3 3$' field daemonset sampan-csi-node '{.status.desiredNumberScheduled} {.status.numberReady}' -n sampan-system
    claim "two operators are ready" kubectl -n sampan-system rollout status deployment/sampan-operator --timeout=120s
    claim "one of them leads" until_true 30 leader
    kubectl get namespace $set_ns >/dev/null 2>&1 || kubectl create namespace $set_ns >/dev/null
    kubectl -n $set_ns create secret generic keys --from-literal=access-key=cluster-test --from-literal=secret-key=cluster-test-secret >/dev/null
}
installed() { # as a user does; livenessprobe is not among the programs that the cluster has
    "$helm" install sampan deploy/charts/sampan -n sampan-system --create-namespace --set csi.node.livenessSidecar=false --wait --timeout 3m
}
uninstalled() {
    "$helm" uninstall sampan -n sampan-system --wait --timeout 2m && until_true 60 eval '[ -z "$(kubectl -n sampan-system get pods -o name)" ]'
}
leader() { kubectl -n sampan-system get lease sampan-operator -o 'jsonpath={.spec.holderIdentity}' | grep .; }

# --- the set ------------------------------------------------------------------------------------------
set_is() { [ "$(kubectl -n $set_ns get sampleset pictures -o 'jsonpath={.status.phase} {.status.runtimeStatus.runtimeReady}')" = "$1" ]; }
becomes_ready() {
    local peers token began
    # Nodes without a server of the set follow the servers' version: docs/operator.md, "Nodes without a server".
    kubectl -n $set_ns create service clusterip servers --tcp=7716 >/dev/null
    kubectl -n $set_ns patch service servers --type=merge -p '{"spec":{"selector":{"app":null,"sampan.io/runtime":"pictures-runtime"}}}' >/dev/null
    peers=http://$(field service servers '{.spec.clusterIP}' -n $set_ns):7716
    began=$SECONDS
    apply <<END
apiVersion: batch.paddlepaddle.org/v1alpha1
kind: SampleSet
metadata: {name: pictures, namespace: $set_ns}
spec:
  partitions: 2
  source: {uri: "s3://samples/pictures", endpoint: "$logged", region: us-east-1}
  secretRef: {name: keys}
  csi: {mountOptions: {peers: "$peers"}}
  cache: {levels: [{mediumType: SSD, path: /var/cache/sets, cacheSize: 64}]}
END
    claim "the set becomes Ready" until_true 120 set_is "Ready 2/2"
    echo "        after $((SECONDS - began)) s"
    claim "all samples were counted" shows '^120$' field sampleset pictures '{.status.cacheStatus.totalFiles}' -n $set_ns
    token=$(field secret pictures-runtime-token '{.data.token}' -n $set_ns)
    kubectl -n $set_ns patch secret keys --type=merge -p "{\"data\":{\"peer-token\":\"$token\"}}" >/dev/null
}

packs_on() { cluster node "$1" find /var/cache/sets -name '*.pack' 2>/dev/null || true; }
nodes_with_packs() {
    local n
    for n in 0 1 2; do packs_on $n | head -n 1; done | wc -l
}
warmed() {
    local from
    from=$(mark)
    apply <<END
apiVersion: batch.paddlepaddle.org/v1alpha1
kind: SampleJob
metadata: {name: warm, namespace: $set_ns}
spec: {type: warmup, sampleSetRef: {name: pictures}}
END
    claim "a warmup succeeds" kubectl -n $set_ns wait --for=jsonpath='{.status.phase}'=Succeeded samplejob/warm --timeout=120s
    claim "all is cached" until_true 60 eval '[ "$(field sampleset pictures "{.status.cacheStatus.cachedSize}" -n $set_ns)" = "$(field sampleset pictures "{.status.cacheStatus.totalSize}" -n $set_ns)" ]'
    claim "two nodes keep it" until_true 30 eval '[ "$(nodes_with_packs)" = 2 ]'
    claim "kubectl get shows the article's columns" shows '^NAME +TOTAL SIZE +CACHED SIZE +AVAIL SPACE +RUNTIME +PHASE +AGE *$' kubectl -n $set_ns get sampleset
    claim "and what it shows, with the set's figures" shows '^pictures +([0-9.]+ [KM]iB) +\1 +[0-9.]+ [MGT]iB +2/2 +Ready +[0-9ms]+ *$' kubectl -n $set_ns get sampleset
    claim "each sample was fetched once, by one node" eval '[ "$(asked_since $from | grep -c "^GET /samples/pictures/class-")" = 120 ] &&
        [ "$(asked_since $from | grep "^GET /samples/pictures/class-" | sort | uniq -d | wc -l)" = 0 ]'
}

# --- training -----------------------------------------------------------------------------------------
train='sampan-train --model mlp --hidden 16 --image 16 --batch_size 8 --loader_threads 1 --data /data --save_dir /output/out --log_period 1000000 --histogram_period 0'
training() { # NAME COMMAND: with two workers; $GOAL is that of the ConfigMap, when the pod starts
    cat <<END
---
apiVersion: batch.paddlepaddle.org/v1
kind: PaddleJob
metadata: {name: $1}
spec:
  sampleSetRef: {name: pictures, mountPath: /data}
  output: {sampleSetRef: {name: pictures, namespace: $set_ns}, mountPath: /output}
  cleanPodPolicy: Never
  backoffLimit: 5
  worker:
    replicas: 2
    template:
      spec:
        terminationGracePeriodSeconds: 2
        containers:
        - name: train
          image: sampan-test/train:1
          command:
          - sh
          - -c
          - |
$(sed 's/^/            /' <<<"$2")
          env: [{name: GOAL, valueFrom: {configMapKeyRef: {name: goal, key: steps}}}]
END
}
goal() { kubectl create configmap goal --from-literal=steps="$1" --dry-run=client -o yaml | apply; }
job_is() { kubectl wait --for=jsonpath='{.status.phase}'="$2" "pdj/$1" --timeout="${3:-180}s"; }
node_of() { field pod "$1" '{.spec.nodeName}' "${@:2}"; }
at_its_data() { # JOB
    local i worker server
    for i in 0 1; do
        worker=$(node_of "$1-worker-$i") server=$(node_of "pictures-runtime-$i" -n $set_ns)
        echo "worker $i: $worker, server $i: $server"
        [ -n "$worker" ] && [ "$worker" = "$server" ] || return 1
    done
    [ "$(node_of "$1-worker-0")" != "$(node_of "$1-worker-1")" ]
}
results_of() { # JOB: what lies in the store, in $W/results/JOB
    rm -rf "$W/got" "$W/results/$1"
    mkdir -p "$W/got" "$W/results"
    cluster lan .venv/bin/python tests/lib/s3.py get samples "$W/got"
    mv "$W/got/pictures/.sampan-output/default/$1/out" "$W/results/$1"
}
last_of() { # JOB: its newest checkpoint
    local done
    for done in "$W/results/$1"/pass-*/done; do
        .venv/bin/python -c 'import json, sys; print(json.load(open(sys.argv[1] + "/state.json"))["step"], sys.argv[1])' "${done%/done}"
    done | sort -n | tail -n 1
}

trains() {
    local from
    goal $goal_never
    from=$(mark)
    training first "verify-reader --passes 1 --threads 2 /reference /data && exec $train --num_passes 3" | apply
    claim "a job runs to its end" job_is first Completed
    claim "its workers ran where their halves are" at_its_data first
    local i
    for i in 0 1; do
        claim "worker $i read every byte as it is in the bucket" shows '"errors_total":0,"mismatches":0,"hung":0,' kubectl logs "first-worker-$i"
    done
    claim "meanwhile nothing was asked of the store but for results" eval "[ -z \"\$(asked_since $from | tee /dev/stderr)\" ]"
    claim "its last checkpoint is in the bucket" eval "results_of first && last_of first | grep -q '/pass-00002$'"
    claim "deleted when it is Completed it leaves nothing" deleted_without_trace first
}
deleted_without_trace() { # JOB
    kubectl delete pdj "$1" --timeout=60s && until_true 60 no_object_of "$1"
}
no_object_of() { # JOB|SET [ARGS of kubectl]
    local left
    left=$(kubectl get pods,services,configmaps,statefulsets,secrets,pvc,pv -o name "${@:2}") || return 1
    ! grep -E "/([a-z-]+\.)?$1(-|\$)" <<<"$left"
}

# A job whose image is nowhere never comes further than Starting.
starts() {
    training hopeless true | sed 's|image: sampan-test/train:1|image: sampan-test/nowhere:1|' | apply
    claim "a job whose image is nowhere is Starting" job_is hopeless Starting 60
    claim "and says why" until_true 60 shows 'ImagePull|ErrImage' field pdj hopeless '{.status.message} {.status.conditions[*].message}'
    claim "deleted when it is Starting it leaves nothing" deleted_without_trace hopeless
}

# --- the same while all is killed in turn -----------------------------------------------------------------
# Beside the training a reader goes over all samples again and again; what it meets ends its pod with 99. Checkpoints
# follow each other closely, so that it is seen that training goes on.
watched() {
    cat <<END
(while verify-reader --passes 1 --threads 1 --drop /reference /data >/tmp/reads; do sleep 0.5; done; cat /tmp/reads; touch /tmp/wrong) &
$train --num_passes 100000 --max_steps \$GOAL --saving_period 0 --saving_period_by_batches 4
code=\$?
[ ! -e /tmp/wrong ] || exit 99
exit \$code
END
}
step_of() { # JOB: of the newest checkpoint that its first worker sees
    kubectl exec "$1-worker-0" -- sh -c 'cat /output/out/pass-*/state.json' 2>/dev/null | .venv/bin/python -c '
import re, sys
print(max([int(n) for n in re.findall(r"\"step\": *(\d+)", sys.stdin.read())], default=0))'
}
trains_on() { # JOB: there are newer checkpoints than now
    local before
    until_true 20 eval "before=\$(step_of $1)" || return 1 # one that is just removed cannot be read
    until_true 60 eval "[ \"\$(step_of $1 || echo 0)\" -gt $((before + 20)) ]"
}
restarts_are() { [ "$(field pdj "$1" '{.status.restarts}')" = "$2" ]; }
went_on() { # JOB: both of its workers, from a checkpoint
    kubectl logs "$1-worker-0" | grep 'going on from' && kubectl logs "$1-worker-1" | grep 'going on from'
}

is_new_on() { # POD UID NODE: another than that one, ready, on that node
    field pod "$1" '{.metadata.uid} {.spec.nodeName} {.status.conditions[?(@.type=="Ready")].status}' -n $set_ns | grep -v "^$2" | grep " $3 True$"
}

survives() {
    local from was node pid keeper
    goal $goal_never
    from=$(mark)
    training disturbed "$(watched)" | apply
    claim "a long job trains" eval 'job_is disturbed Running && until_true 60 trains_on disturbed'

    was=$(leader)
    claim "the operator that leads is killed" kill_in "${was%_*}" sampan-operator -n sampan-system
    claim "another one leads" until_true 60 eval "leader | grep -vx '$was'"

    claim "a server is killed" kill_in pictures-runtime-1 sampan -n $set_ns
    claim "and its set noticed" until_true 60 eval '[ "$(field pod pictures-runtime-1 "{.status.containerStatuses[0].restartCount}" -n $set_ns)" = 1 ]'
    claim "the set is Ready again" until_true 90 set_is "Ready 2/2"
    node=$(node_of pictures-runtime-0 -n $set_ns) was=$(field pod pictures-runtime-0 '{.metadata.uid}' -n $set_ns)
    kubectl -n $set_ns delete pod pictures-runtime-0 --grace-period=0 --force >/dev/null 2>&1
    claim "a server whose pod is deleted comes back where its samples are" until_true 90 eval "is_new_on pictures-runtime-0 $was $node"
    claim "the set is Ready again" until_true 90 set_is "Ready 2/2"
    claim "it trains on" trains_on disturbed

    node=$(node_of disturbed-worker-0) node=${node#node-}
    pid=$(status_of disturbed-worker-0 pid) keeper=$(status_of disturbed-worker-0 keeper_pid)
    kubectl -n sampan-system delete "$(plugin_pod "$node")" --grace-period=1 --wait=false >/dev/null
    claim "a mount's owner is killed while its plugin's pod is deleted" kill_on "$node" "$pid"
    claim "it trains on" eval "until_true 60 owner_is_another disturbed-worker-0 $pid && trains_on disturbed"
    claim "the plugin comes back" until_true 90 plugin_ready "$node"
    pid=$(status_of disturbed-worker-0 pid) keeper=$(status_of disturbed-worker-0 keeper_pid)
    claim "owner and keeper are killed together" kill_on "$node" "$pid" "$keeper"
    claim "it trains on" eval "until_true 60 owner_is_another disturbed-worker-0 $pid && trains_on disturbed"
    claim "until now no pod of the job has failed" eval 'restarts_are disturbed "" || restarts_are disturbed 0'

    claim "a training process is killed" kill_in disturbed-worker-1 sampan-train
    claim "the job starts again" until_true 90 restarts_are disturbed 1
    claim "from the last checkpoint" until_true 90 went_on disturbed
    claim "and trains on, at its data" eval 'until_true 60 trains_on disturbed && at_its_data disturbed'

    claim "in all this no sample was fetched from the store" nothing_fetched_since $from

    # Checkpoints lie 4 steps apart, and a pass ends with one: 2 steps later nobody's last one is the end of a pass, which
    # has another name for those that save by passes.
    steps=$(($(step_of disturbed) + 102))
    goal $steps
    node=$(node_of disturbed-worker-1)
    cluster cut "${node#node-}"
    claim "a node loses its power and has it back" cluster up --level 3 --nodes 3
    claim "the job starts again" until_true 180 restarts_are disturbed 2
    claim "and trains to its end" job_is disturbed Completed 300
    claim "from the last checkpoint" went_on disturbed
    claim "at its data" at_its_data disturbed
    claim "the set is Ready again" until_true 120 set_is "Ready 2/2"

    from=$(mark)
    training undisturbed "verify-reader --passes 1 --threads 2 --drop /reference /data && exec $train --num_passes 100000 --max_steps $steps --saving_period 0" | apply
    claim "a job that nothing disturbs learns as long" job_is undisturbed Completed 300
    claim "from what the nodes have kept" nothing_fetched_since $from
    claim "it ends with the same checkpoint, bit for bit" same_results disturbed undisturbed
    claim "deleted they leave nothing" eval 'deleted_without_trace disturbed && deleted_without_trace undisturbed'
}
nothing_fetched_since() { # MARK
    ! asked_since "$1" | grep '^GET /samples/pictures/class-'
}
same_results() {
    local a b file
    results_of "$1" && results_of "$2" || return 1
    read -r _ a <<<"$(last_of "$1")"
    read -r _ b <<<"$(last_of "$2")"
    echo "$a $b"
    [ -n "$a" ] && [ "${a##*/}" = "${b##*/}" ] || return 1
    for file in "$a"/*; do cmp "$file" "$b/${file##*/}" || return 1; done
}

# --- the release goes, and comes again -------------------------------------------------------------------
set_and_job() { # what a user sees of them
    kubectl -n $set_ns get sampleset pictures -o 'jsonpath={.metadata.uid} {.status.phase} {.status.runtimeStatus.runtimeReady} ' &&
        kubectl get pdj lasting -o 'jsonpath={.metadata.uid} {.status.phase} {.status.restarts}'
}
reads_well() { kubectl exec "$1-worker-0" -- test ! -e /tmp/wrong && kubectl exec "$1-worker-1" -- test ! -e /tmp/wrong; } # JOB
reinstalled() {
    local was node pid keeper
    goal $goal_never
    training lasting "$(watched)" | apply
    { onlooker 2 && short_job brief; } | apply
    claim "a long job trains" eval 'job_is lasting Running && until_true 60 trains_on lasting'
    claim "a short one has ended, a pod looks on" eval 'kubectl -n $set_ns wait --for=jsonpath={.status.phase}=Succeeded samplejob/brief --timeout=60s &&
        kubectl -n $set_ns wait --for=condition=Ready pod/onlooker-2 --timeout=60s'
    was=$(set_and_job)
    claim "the release is uninstalled" uninstalled
    claim "the definitions stay" eval '[ "$(kubectl get crd -o name | grep -c paddlepaddle.org)" = 4 ]'
    claim "and set and job, as they were" eval '[ "$(set_and_job | tee /dev/stderr)" = "$was" ]'
    claim "the job trains on" trains_on lasting
    node=$(node_of lasting-worker-0) node=${node#node-}
    pid=$(status_of lasting-worker-0 pid)
    claim "a mount's owner is killed where no plugin is" kill_on "$node" "$pid"
    claim "the job trains on" eval "until_true 60 owner_is_another lasting-worker-0 $pid && trains_on lasting"
    training meanwhile "verify-reader --passes 1 --threads 2 /reference /data" | apply
    kubectl -n $set_ns delete samplejob/brief pod/onlooker-2 --wait=false >/dev/null
    claim "a job that is asked for now has no phase" eval 'sleep 3 && [ -z "$(field pdj meanwhile "{.status.phase}")" ]'
    claim "what is deleted now stays, deleted" eval '[ "$(kubectl -n $set_ns get samplejob/brief pod/onlooker-2 -o "jsonpath={.items[*].metadata.deletionTimestamp}" | wc -w)" = 2 ]'

    claim "the chart is installed again, around the definitions that stayed" installed
    claim "the job that waited runs to its end" job_is meanwhile Completed
    claim "what was deleted is gone" kubectl -n $set_ns wait --for=delete samplejob/brief pod/onlooker-2 --timeout=180s
    claim "the set is Ready" until_true 60 set_is "Ready 2/2"
    pid=$(status_of lasting-worker-0 pid) keeper=$(status_of lasting-worker-0 keeper_pid)
    claim "owner and keeper are killed together" kill_on "$node" "$pid" "$keeper"
    claim "the new plugin has the mount, and the job trains on" eval "until_true 60 owner_is_another lasting-worker-0 $pid && trains_on lasting"
    claim "in all this no read failed, and no pod" eval 'reads_well lasting && [ "$(set_and_job)" = "$was" ]'
    claim "deleted they leave nothing" eval 'deleted_without_trace lasting && deleted_without_trace meanwhile'
}
short_job() {
    printf -- '---\napiVersion: batch.paddlepaddle.org/v1alpha1\nkind: SampleJob\nmetadata: {name: %s, namespace: %s}\n' "$1" $set_ns
    echo 'spec: {type: warmup, sampleSetRef: {name: pictures}}'
}

# --- an older version ---------------------------------------------------------------------------------
# Pods that run all the while, one on each node: two have a server of the set, one has none.
onlooker() { # NODE
    cat <<END
---
apiVersion: v1
kind: Pod
metadata: {name: onlooker-$1, namespace: $set_ns, labels: {app: onlooker}}
spec:
  nodeName: node-$1
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: "sampan-test/train:1", command: [sleep, "100000"], volumeMounts: [{name: data, mountPath: /data}]}
  volumes: [{name: data, persistentVolumeClaim: {claimName: pictures}}]
END
}
seen_by() { # NODE: of what the change of the bucket touches
    kubectl -n $set_ns exec "onlooker-$1" -- sh -c 'cd /data/class-000 && sha256sum 000000.jpg && ls | wc -l' | tr -s '\n ' ' '
}
all_see() { # WHAT
    local n now
    for n in 0 1 2; do
        now=$(seen_by $n)
        [ "$now" = "$1" ] || { echo "node-$n: $now" && return 1; }
    done
}
version_is() { [ "$(field sampleset pictures '{.status.version}' -n $set_ns)" = "$1" ]; }
stay_at() { kubectl -n $set_ns patch sampleset pictures --type=merge -p "{\"spec\":{\"version\":$1}}"; } # a word of JSON

goes_back() {
    local one two old new n
    one=$(field sampleset pictures '{.status.version}' -n $set_ns)
    for n in 0 1 2; do onlooker $n; done | apply
    claim "a pod on each node has the set" kubectl -n $set_ns wait --for=condition=Ready pod -l app=onlooker --timeout=90s
    claim "one of the nodes has no server of it" eval '[ "$(kubectl get nodes -l sampan.io/$set_ns.pictures -o name | wc -l)" = 2 ]'
    old=$(seen_by 0)
    claim "all see the same" eval '[ -n "$old" ] && all_see "$old"'

    mkdir -p "$W/change/class-000"
    cp "$W/pictures/class-001/000001.jpg" "$W/change/class-000/000000.jpg"
    cp "$W/pictures/class-001/000001.jpg" "$W/change/class-000/new.jpg"
    in_bucket samples "$W/change" pictures/
    new="$(sha256sum <"$W/change/class-000/000000.jpg" | cut -d' ' -f1) 000000.jpg $(($(ls "$W/pictures/class-000" | wc -l) + 1)) "
    apply <<END
apiVersion: batch.paddlepaddle.org/v1alpha1
kind: SampleJob
metadata: {name: look-again, namespace: $set_ns}
spec: {type: scan, sampleSetRef: {name: pictures}}
END
    claim "the bucket changed, and a scan finds it" kubectl -n $set_ns wait --for=jsonpath='{.status.phase}'=Succeeded samplejob/look-again --timeout=90s
    claim "the set serves another version" until_true 60 eval '! version_is "$one"'
    two=$(field sampleset pictures '{.status.version}' -n $set_ns)
    claim "which is seen on all nodes" until_true 60 all_see "$new"

    claim "spec.version names the older one" stay_at "\"$one\""
    claim "that is what status.version shows then" until_true 60 version_is "$one"
    claim "with the condition that it stays" until_true 60 shows 'True Pinned' field sampleset pictures '{.status.conditions[?(@.type=="VersionServed")].status} {.status.conditions[?(@.type=="VersionServed")].reason}' -n $set_ns
    claim "both are kept" eval 'shows "$one.*$two" field sampleset pictures "{.status.versions}" -n $set_ns'
    claim "pods on all nodes see the older one" until_true 60 all_see "$old"

    claim "spec.version is taken away" stay_at null
    claim "then the newest is served" until_true 60 version_is "$two"
    claim "and seen on all nodes" until_true 60 all_see "$new"
    claim "the set is Ready" until_true 60 set_is "Ready 2/2"
    kubectl -n $set_ns delete pod -l app=onlooker --timeout=60s >/dev/null
}

# --- the example --------------------------------------------------------------------------------------
# deploy/examples/mnist.yaml as it stands, but for where the bucket is and whose image it is.
example() {
    "$SAMPAN_BUILD/tools/make-pictures" "$W/digits" 10 16 28 28
    in_bucket samples "$W/digits" mnist/
    kubectl create secret generic mnist --from-literal=access-key=cluster-test --from-literal=secret-key=cluster-test-secret >/dev/null
    sed "s|s3://datasets/|s3://samples/|; s|https://s3.example.com|$logged|; s|image: sampan/trainer:.*|image: sampan-test/train:1|" \
        deploy/examples/mnist.yaml >"$W/mnist.yaml"
    claim "the example applies" kubectl apply -f "$W/mnist.yaml"
    claim "its job runs to its end" job_is mnist Completed 240
    claim "its warmup succeeded" kubectl wait --for=jsonpath='{.status.phase}'=Succeeded samplejob/mnist-warmup --timeout=60s
    claim "checkpoint and curves are in the bucket" eval 'keys_of samples | grep "^mnist/.sampan-output/default/mnist/out/pass-00004/done$" &&
        keys_of samples | grep "^mnist/.sampan-output/default/mnist/curves/train.jsonl$"'
    claim "deleted it leaves nothing but the user's keys" eval 'kubectl delete -f "$W/mnist.yaml" --timeout=120s && kubectl delete secret mnist &&
        until_true 60 no_object_of mnist'
}

story_end() {
    local n has_server
    has_server=$(kubectl get nodes -l "sampan.io/$set_ns.pictures" -o name)
    claim "the set goes" eval "kubectl -n $set_ns delete samplejob --all --timeout=60s && kubectl -n $set_ns delete sampleset pictures --timeout=120s"
    claim "nothing is left of it" until_true 60 nothing_of_ours
    claim "no node keeps a label" eval '[ -z "$(kubectl get nodes -l sampan.io/$set_ns.pictures -o name)" ]'
    for n in 0 1 2; do
        nothing_on $n
        ! grep -qx "node/node-$n" <<<"$has_server" || claim "no sample is left in the cache of node-$n" eval "! packs_on $n | grep ."
    done
    kubectl delete namespace $set_ns --wait=false >/dev/null
    kubectl delete configmap goal --ignore-not-found >/dev/null
    claim "the release goes" uninstalled
    claim "of all kinds only the definitions are left of it" eval '[ "$(of_the_release | sed "s|/.*||" | sort | uniq -c | tr -s " ")" = " 4 customresourcedefinition.apiextensions.k8s.io" ]'
}
of_the_release() {
    kubectl get "$(kubectl api-resources --verbs=list,delete -o name | paste -sd,)" -A -l app.kubernetes.io/managed-by=Helm -o name 2>/dev/null | tee /dev/stderr
}

"$SAMPAN_BUILD/tools/make-pictures" "$W/pictures" 3 40 24 24
store_up
logged_store_up
in_bucket samples "$W/pictures" pictures/
story_images
for part in ${STORY_PARTS:-deployed becomes_ready warmed by_plugin works scales refreshes by_servers plain_job trains starts survives reinstalled goes_back example story_end}; do $part; done

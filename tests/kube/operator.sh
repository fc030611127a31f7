# shellcheck shell=bash
# Sourced by tests/kube/run: the operator with exactly the rights of deploy/operator against real controllers;
# nodes are fake, so servers run without a process: nothing is listed, and no cache is cleared when a set goes.

operator_up() { # as its own service account, from outside
    local token
    token=$(kubectl -n sampan-system create token sampan-operator --duration=1h) || return 1
    (umask 077 && sed "s/token: .*}}/token: $token}}/" "$KUBECONFIG" >"$W/operator.kubeconfig")
    "$SAMPAN_BUILD/bin/sampan-operator" --kubeconfig "$W/operator.kubeconfig" --namespace sampan-system --log-format text 2>"$W/operator.log" &
    operator_pid=$!
    children+=($operator_pid)
    until_true 60 grep -q 'leading as' "$W/operator.log"
}
has_label() { kubectl get nodes -l "$1" -o name | wc -l | grep -qx "$2"; }

# The longest names that a label may have, of everything that names are made of.
long_names() {
    local ns name job
    ns=$(printf 'n%.0s' {1..63}) name=$(printf 's%.0s' {1..63}) job=$(printf 'j%.0s' {1..63})
    kubectl create namespace "$ns" >/dev/null
    apply <<END
apiVersion: batch.paddlepaddle.org/v1alpha1
kind: SampleSet
metadata: {name: $name, namespace: $ns}
spec: {partitions: 2, source: {uri: "s3://bucket/$name"}, sharedTo: [default]}
---
apiVersion: batch.paddlepaddle.org/v1
kind: PaddleJob
metadata: {name: $job}
spec:
  sampleSetRef: {name: $name, namespace: $ns, mountPath: /data}
  output: {sampleSetRef: {name: $name, namespace: $ns}, mountPath: /output}
  intranet: Service
  startPolicy: Immediate
  worker: {replicas: 2, template: {spec: {containers: [{name: t, image: "x:1"}]}}}
END
    claim "a set of 63 characters in a namespace of 63 has two servers on nodes with its label" until_true 90 eval \
        "kubectl -n $ns get sampleset $name -o 'jsonpath={.status.runtimeStatus.runtimeReady}' | grep -x 2/2 && [ \"\$(kubectl get nodes --show-labels | grep -c 'sampan.io/.*-runtime-')\" = 2 ]"
    claim "a job of 63 characters runs on it" kubectl wait --for=jsonpath='{.status.phase}'=Running "pdj/$job" --timeout=90s
    claim "nothing was refused" eval '! kubectl get events -A --field-selector reason=Refused | grep Refused'
    claim "all of it goes" eval "kubectl delete pdj $job --timeout=60s && kubectl -n $ns delete sampleset $name --timeout=120s && until_true 60 nothing_of_ours"
    claim "and the labels" eval '! kubectl get nodes --show-labels | grep "sampan.io/.*-runtime-"'
    kubectl delete namespace "$ns" --wait=false >/dev/null
}

# A kubelet that says how often it has started a server again. Trainers have no node here: fake ones end their pods at once.
started_again() { # TIMES
    local pod
    pod=$(kubectl get pods -l paddle-job-pserver=lasting -o 'jsonpath={.items[0].metadata.name}') || return 1
    kubectl patch pod "$pod" --subresource=status --type=merge -p '{"status":{"conditions":[{"type":"Ready","status":"False"}],
        "containerStatuses":[{"name":"pserver","image":"x:1","imageID":"","ready":false,"restartCount":'"$1"',"state":{"waiting":{"reason":"CrashLoopBackOff"}}}]}}'
}
servers_bounds() {
    local job='{apiVersion: paddlepaddle.org/v1, kind: TrainingJob, metadata: {name: lasting}, spec: {image: "x:1", trainer: {entrypoint: t, node_selector: {nowhere: "true"}}, pserver: {entrypoint: s'
    claim "servers whose bounds cross are refused" refused 'max-instance must not be below min-instance' <<<"$job, min-instance: 3, max-instance: 2}}}"
    apply <<<"$job, min-instance: 2, max-instance: 3}}}"
    claim "servers are as many as the fewest" until_true 60 shows '^2$' field rs lasting-pserver '{.status.readyReplicas}'
    claim "one has started again too often" started_again 6
    claim "that fails the job, with its name" until_true 30 shows 'Failed the server lasting-pserver-.* has started again too often: 6' field trainingjob lasting '{.status.phase} {.status.message}'
    claim "which gives all pods back" until_true 60 eval '[ -z "$(kubectl get pods -l app.kubernetes.io/managed-by=sampan-operator -o name)" ]'
    kubectl delete trainingjob lasting >/dev/null
}

operates() {
    kubectl apply -k deploy/crd >/dev/null && kubectl apply -k deploy/csi >/dev/null && kubectl apply -k deploy/operator >/dev/null
    kubectl wait --for=condition=Established crd/samplesets.batch.paddlepaddle.org crd/samplejobs.batch.paddlepaddle.org \
        crd/paddlejobs.batch.paddlepaddle.org crd/trainingjobs.paddlepaddle.org --timeout=60s >/dev/null
    kubectl get namespace paddle-system >/dev/null 2>&1 || kubectl create namespace paddle-system >/dev/null
    kubectl -n paddle-system create secret generic imagenet --from-literal=access-key=a --from-literal=secret-key=b >/dev/null
    claim "the operator leads" operator_up
    claim "a set and a job apply" kubectl apply -f deploy/examples/imagenet.yaml
    claim "the set's claim is bound" eval 'until_true 20 kubectl -n paddle-system get pvc imagenet && kubectl -n paddle-system wait --for=jsonpath={.status.phase}=Bound pvc/imagenet --timeout=60s'
    claim "so is that of the job's namespace" kubectl wait --for=jsonpath='{.status.phase}'=Bound pvc/paddle-system.imagenet --timeout=60s
    claim "its servers are ready" eval 'until_true 60 kubectl -n paddle-system get statefulset imagenet-runtime && kubectl -n paddle-system rollout status statefulset/imagenet-runtime --timeout=90s'
    claim "two nodes have the label of a partition" until_true 60 has_label sampan.io/paddle-system.imagenet 2
    claim "the set says so" until_true 60 shows ' 2/2 ' kubectl -n paddle-system get sampleset imagenet
    claim "the job waits for the samples and says so" until_true 60 shows 'SampleSet paddle-system/imagenet is' kubectl get pdj resnet -o 'jsonpath={.status.conditions[*].message}'
    claim "a set that is in use is not deleted, and says by whom" eval 'kubectl -n paddle-system delete sampleset imagenet --wait=false &&
        until_true 60 shows "default/resnet" kubectl -n paddle-system get sampleset imagenet -o "jsonpath={.status.conditions[*].message}"'
    claim "when the job goes, so does the set" eval 'kubectl delete pdj resnet --timeout=120s && kubectl -n paddle-system wait --for=delete sampleset/imagenet --timeout=120s'
    claim "nothing is left of either" eval 'until_true 60 nothing_of_ours'
    claim "no node keeps a label" until_true 60 has_label sampan.io/paddle-system.imagenet 0
    claim "kubectl sampan submits a job of tasks" deploy/kubectl/kubectl-sampan submit mnist --image train:1 --workers 2 --ps 1 -- train
    claim "each task is a ReplicaSet and a Service" until_true 30 eval '
        kubectl get rs,svc mnist-ps-0 mnist-worker-0 mnist-worker-1'
    claim "with the job they go" eval 'deploy/kubectl/kubectl-sampan delete mnist && until_true 60 nothing_of_ours'
    long_names
    servers_bounds
    claim "its rights were enough" eval '! grep -i "forbidden\|cannot list" "$W/operator.log"'
    kill "$operator_pid"
    kubectl delete namespace paddle-system --wait=false >/dev/null
}
operates

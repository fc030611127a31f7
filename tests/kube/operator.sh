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
    claim "its rights were enough" eval '! grep -i "forbidden\|cannot list" "$W/operator.log"'
    kill "$operator_pid"
    kubectl delete namespace paddle-system --wait=false >/dev/null
}
operates

# shellcheck shell=bash
# Sourced by the parts of tests/kube/run.
#
#   result NAME CODE            counts and prints one claim
#   claim NAME COMMAND...       the same, of a command; what it printed is shown when it fails
#   skipped WHAT WHY
#   until_true SECONDS CMD...   polls; the time is only where it gives up
#   apply [ARGS] <<YAML         kubectl apply -f -
#   printed                     the article's two files, as it prints them: the job has no namespace
#   nothing_of_ours             no object of the operator's is left
#   cluster VERB...             tests/kube/cluster
#   $W                          a folder for this run; $KUBE_TOOLS is in front of PATH
#   $helm                       the program, where there is one; built_helm makes it, where there is a Go compiler
passed=0 failed=0
helm=${HELM:-$(command -v helm || echo "${CONFORMANCE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sampan-conformance}/bin/helm")}

built_helm() {
    [ ! -x "$helm" ] && command -v go >/dev/null || return 0
    echo "building helm (some minutes, once) ..."
    GOBIN=$(dirname "$helm") GOFLAGS=-trimpath timeout 1500 go install helm.sh/helm/v3/cmd/helm@v3.18.6 >"$W/helm.log" 2>&1 || tail -n 3 "$W/helm.log"
}

result() {
    if [ "$2" = 0 ]; then passed=$((passed + 1)) && echo "ok      $1"; else failed=$((failed + 1)) && echo "FAIL    $1"; fi
}
claim() {
    local name=$1 code=0
    shift
    "$@" >"$W/claim.out" 2>&1 || code=$?
    result "$name" "$code"
    [ "$code" = 0 ] || tail -n 20 "$W/claim.out" | sed 's/^/        /'
}
skipped() { echo "skipped $1: $2"; }

until_true() {
    local give_up=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $give_up ] || return 1
        sleep 0.2
    done
}

cluster() { tests/kube/cluster "$@"; }
apply() { kubectl apply "$@" -f - >/dev/null; }
refused() { # TEXT <<YAML: the API server must not take it, and say so
    local text=$1
    if kubectl apply --dry-run=server -f - >"$W/refused" 2>&1; then
        echo "it was accepted"
        return 1
    fi
    cat "$W/refused"
    grep -qF -- "$text" "$W/refused"
}
field() { kubectl get "$1" "$2" -o "jsonpath=$3" "${@:4}"; } # KIND NAME PATH [ARGS]
shows() { # PATTERN COMMAND...
    local pattern=$1
    shift
    "$@" | tee /dev/stderr | grep -E -- "$pattern" >/dev/null # all is read: who is cut off fails
}
fails() { # PATTERN COMMAND...: with such words
    local said
    ! said=$("${@:2}" 2>&1) || { echo "it did not fail: $said" && return 1; }
    echo "$said"
    grep -E -- "$1" <<<"$said" >/dev/null
}
nothing_of_ours() {
    local left
    left=$(kubectl get pods,services,statefulsets,configmaps,pvc,secrets -A -l app.kubernetes.io/managed-by=sampan-operator -o name &&
        kubectl get pv -l app.kubernetes.io/managed-by=sampan-operator -o name) || return 1
    [ -z "$(grep -v sampan-operator-key <<<"$left")" ] || { echo "left: $left" && return 1; }
}
printed() {
    cat <<'END'
apiVersion: batch.paddlepaddle.org/v1alpha1
kind: SampleSet
metadata: {name: imagenet, namespace: paddle-system}
spec:
  partitions: 2
  source: {uri: "bos://paddleflow-public.hkg.bcebos.com/imagenet"}
  secretRef: {name: imagenet}
---
apiVersion: batch.paddlepaddle.org/v1
kind: PaddleJob
metadata: {name: resnet}
spec:
  sampleSetRef: {name: imagenet, mountPath: /data}
  worker:
    replicas: 2
    template:
      spec:
        containers:
        - name: resnet
          image: paddle-operator/demo-resnet:v1
          command: [python]
          args: ["-m", "paddle.distributed.launch", "./tools/train.py", "-c", "./config/ResNet50.yaml"]
          resources: {limits: {nvidia.com/gpu: 2}}
END
}

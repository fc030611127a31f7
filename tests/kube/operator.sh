# shellcheck shell=bash
# Sourced by tests/kube/run: the operator with exactly the rights of deploy/operator against real controllers;
# nodes are fake, so servers run without a process: nothing is listed, and no cache is cleared when a set goes. The set and
# the job are the article's, as printed.
# OPERATOR_PARTS='with_more' runs these of its parts alone; `crowd` runs only so, or with SLOW=1.

operator_up() { # USER [ARGS...] : from outside, with what a kubeconfig says of its user
    local user=$1
    shift
    (umask 077 && sed "s|token: .*}}|$user}}|" "$KUBECONFIG" >"$W/operator.kubeconfig")
    "$SAMPAN_BUILD/bin/sampan-operator" --kubeconfig "$W/operator.kubeconfig" --namespace sampan-system --log-format text "$@" 2>"$W/operator.log" &
    operator_pid=$!
    children+=($operator_pid)
    until_true 60 grep -q 'leading as' "$W/operator.log"
}
operator_down() {
    kill "$operator_pid" && wait "$operator_pid"
}
by_token() { echo "token: $(kubectl -n sampan-system create token sampan-operator --duration=1h)"; }
by_certificate() { # of the same name, so with the same rights
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$W/operator.key" \
        -subj /CN=system:serviceaccount:sampan-system:sampan-operator -out "$W/operator.csr" 2>/dev/null
    openssl x509 -req -in "$W/operator.csr" -CA "$KUBE_DIR/pki/ca.crt" -CAkey "$KUBE_DIR/pki/ca.key" -CAcreateserial -days 2 \
        -extfile <(echo extendedKeyUsage=clientAuth) -out "$W/operator.crt" 2>/dev/null
    echo "client-certificate: $W/operator.crt, client-key: $W/operator.key"
}
connections() { # of the operator to the API server: a line each
    ss -Htnp state established "( dport = :$KUBE_PORT )" | grep "pid=$operator_pid,"
}
has_label() { kubectl get nodes -l "$1" -o name | wc -l | grep -qx "$2"; }

restricted() { # where nobody's pods may have more rights than these
    local rights='runAsNonRoot: true, runAsUser: 1000, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}'
    kubectl create namespace strict >/dev/null && kubectl label namespace strict pod-security.kubernetes.io/enforce=restricted >/dev/null
    apply -n strict <<END
apiVersion: batch.paddlepaddle.org/v1
kind: PaddleJob
metadata: {name: modest}
spec: {worker: {replicas: 2, template: {spec: {schedulerName: default-scheduler, containers: [{name: t, image: "x:1", securityContext: {$rights}}]}}}}
END
    claim "in a namespace of restricted pods a job of such pods runs" kubectl -n strict wait --for=jsonpath='{.status.phase}'=Running pdj/modest --timeout=60s
    kubectl -n strict delete pdj modest --timeout=60s >/dev/null && kubectl delete namespace strict >/dev/null
}

guaranteed() { # where each container has to say how much it takes at most; what is added to a pod leaves its class as it is
    kubectl create namespace counted >/dev/null && kubectl -n counted create quota all --hard=limits.cpu=8,limits.memory=8Gi >/dev/null
    apply -n counted <<END
apiVersion: batch.paddlepaddle.org/v1
kind: PaddleJob
metadata: {name: modest}
spec: {worker: {replicas: 2, template: {spec: {schedulerName: default-scheduler, containers: [{name: t, image: "x:1", resources: {limits: {cpu: "1", memory: 1Gi}}}]}}}}
END
    claim "in a namespace with a quota of limits a job of pods with limits runs" kubectl -n counted wait --for=jsonpath='{.status.phase}'=Running pdj/modest --timeout=60s
    claim "its pods are Guaranteed" shows '^Guaranteed Guaranteed$' kubectl -n counted get pods -o 'jsonpath={.items[*].status.qosClass}'
    kubectl -n counted delete pdj modest --timeout=60s >/dev/null && kubectl delete namespace counted >/dev/null
}

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

# --- elastic jobs and Volcano's groups: etcd is real, the launcher and Volcano are played -----------------
etcd_up() {
    "$KUBE_TOOLS/etcd" --data-dir "$W/etcd-of-jobs" --log-level error --unsafe-no-fsync --listen-client-urls "$etcd" --advertise-client-urls "$etcd" \
        --listen-peer-urls "$etcd_peers" --initial-advertise-peer-urls "$etcd_peers" --initial-cluster "default=$etcd_peers" >"$W/etcd.log" 2>&1 &
    etcd_pid=$!
    children+=($etcd_pid)
    until_true 30 curl -sf -o "$W/up" "$etcd/health"
}
free_url() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print("http://127.0.0.1:%d" % s.getsockname()[1])'; }
put_key() { curl -sf -o "$W/put" "$etcd/v3/kv/put" -d "{\"key\":\"$(printf %s "$1" | base64 -w0)\",\"value\":\"$(printf %s "$2" | base64 -w0)\"}"; }
keys() { # all of them: "KEY VALUE" lines
    curl -sf "$etcd/v3/kv/range" -d '{"key":"AA==","range_end":"AA=="}' | .venv/bin/python -c '
import base64, json, sys
for kv in json.load(sys.stdin).get("kvs", []):
    print(base64.b64decode(kv["key"]).decode(), base64.b64decode(kv["value"]).decode())'
}
keys_are() { [ "$(keys)" = "$1" ]; }
elastic() {
    local others='/paddle/default-growing-2/np 1'
    put_key /paddle/default-growing/np 7 && put_key /paddle/default-growing/nodes/old 10.0.0.1:8000 && put_key "${others% 1}" 1
    apply <<END
apiVersion: batch.paddlepaddle.org/v1
kind: PaddleJob
metadata: {name: growing}
spec:
  elastic: 1
  worker: {replicas: 2, requests: 1, limits: 4, template: {spec: {schedulerName: default-scheduler, containers: [{name: t, image: "x:1"}]}}}
END
    claim "an elastic job runs" kubectl wait --for=jsonpath='{.status.phase}'=Running pdj/growing --timeout=60s
    claim "what a former job of its name left in etcd is forgotten, and nothing else" until_true 30 keys_are "$others"
    put_key /paddle/default-growing/np 2
    kubectl patch pdj growing --type=merge -p '{"spec":{"worker":{"replicas":3}}}' >/dev/null
    claim "its launchers are told of a third worker" until_true 30 keys_are "$others
/paddle/default-growing/np 3"
    kill "$etcd_pid" && wait "$etcd_pid"
    kubectl patch pdj growing --type=merge -p '{"spec":{"worker":{"replicas":2}}}' >/dev/null
    claim "while etcd is away it is not done" until_true 30 shows '^DOING$' field pdj growing '{.status.elastic}'
    claim "etcd is back" etcd_up
    claim "then it is" eval 'until_true 60 keys_are "$others
/paddle/default-growing/np 2" && until_true 30 shows "^DONE$" field pdj growing "{.status.elastic}"'
    kubectl patch pdj growing --type=merge -p '{"spec":{"worker":{"replicas":3,"template":{"spec":{"nodeSelector":{"no":"such"}}}}}}' >/dev/null
    claim "while no node takes a third worker it is Scaling" kubectl wait --for=jsonpath='{.status.phase}'=Scaling pdj/growing --timeout=60s
    claim "deleted when it is Scaling it leaves nothing" eval 'kubectl delete pdj growing --timeout=60s && until_true 60 nothing_of_ours'
}
groups_defined() { # as Volcano defines them, without their fields
    apply <<END
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: podgroups.scheduling.volcano.sh}
spec:
  group: scheduling.volcano.sh
  scope: Namespaced
  names: {kind: PodGroup, listKind: PodGroupList, plural: podgroups, singular: podgroup}
  versions: [{name: v1beta1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
END
    kubectl wait --for=condition=Established crd/podgroups.scheduling.volcano.sh --timeout=60s && until_true 30 kubectl get podgroups
}
grouped() {
    local pods='kubectl get pods -l paddle-res-type=worker -o name'
    apply <<END
apiVersion: batch.paddlepaddle.org/v1
kind: PaddleJob
metadata: {name: together}
spec:
  schedulingPolicy: {queue: research}
  worker: {replicas: 2, template: {spec: {containers: [{name: t, image: "x:1", resources: {requests: {cpu: 100m}}}]}}}
END
    claim "a job is a PodGroup of all its pods" until_true 30 shows '^2 research 200m$' field podgroup together '{.spec.minMember} {.spec.queue} {.spec.minResources.cpu}'
    claim "it waits for its turn, and says so" until_true 30 shows 'Waiting the PodGroup together is' field pdj together '{.status.conditions[?(@.type=="PodGroupReady")].reason} {.status.conditions[?(@.type=="PodGroupReady")].message}'
    claim "without a pod" eval "[ -z \"\$($pods)\" ]"
    kubectl patch podgroup together --subresource=status --type=merge -p '{"status":{"phase":"Inqueue"}}' >/dev/null
    claim "when it is its turn, its pods are Volcano's to place" until_true 30 eval \
        "[ \"\$($pods | wc -l)\" = 2 ] && [ \"\$(kubectl get pods -l paddle-res-type=worker -o 'jsonpath={.items[*].spec.schedulerName} {.items[*].metadata.annotations.scheduling\.k8s\.io/group-name}')\" = 'volcano volcano together together' ]"
    claim "with the job its group goes" eval 'kubectl delete pdj together --timeout=60s && until_true 30 eval "! kubectl get podgroup together"'
}
with_more() {
    etcd=$(free_url) etcd_peers=$(free_url)
    claim "an etcd of the jobs" etcd_up
    claim "Volcano's kind" groups_defined
    claim "an operator with a client's certificate leads" operator_up "$(by_certificate)" --etcd "$etcd" --scheduling volcano
    restricted
    guaranteed
    elastic
    grouped
    claim "nothing is left" until_true 60 nothing_of_ours
    claim "its rights were enough" eval '! grep -i "forbidden\|cannot list" "$W/operator.log"'
    operator_down
    kubectl delete crd podgroups.scheduling.volcano.sh >/dev/null
}

operator_deployed() { # but for its pods, which have no process
    kubectl apply -k deploy/crd >/dev/null && kubectl apply -k deploy/csi >/dev/null && kubectl apply -k deploy/operator >/dev/null
    kubectl wait --for=condition=Established crd/samplesets.batch.paddlepaddle.org crd/samplejobs.batch.paddlepaddle.org \
        crd/paddlejobs.batch.paddlepaddle.org crd/trainingjobs.paddlepaddle.org --timeout=60s >/dev/null
}
puts_back() { # what somebody changes in a set's children
    kubectl -n paddle-system scale statefulset imagenet-runtime --replicas=0 >/dev/null
    kubectl -n paddle-system set image statefulset/imagenet-runtime runtime=nowhere:1 >/dev/null
    claim "servers that somebody takes away come back" until_true 30 shows '^2 sampan/sampan:' field statefulset imagenet-runtime '{.spec.replicas} {.spec.template.spec.containers[0].image}' -n paddle-system
    kubectl -n paddle-system patch service imagenet-runtime-service --type=merge -p '{"spec":{"selector":{"sampan.io/runtime":"nobody"}}}' >/dev/null
    claim "their Service leads to them again" until_true 30 shows '^imagenet-runtime$' field service imagenet-runtime-service '{.spec.selector.sampan\.io/runtime}' -n paddle-system
    kubectl -n paddle-system delete service imagenet-runtime-service >/dev/null
    claim "one that is deleted is made anew" until_true 30 kubectl -n paddle-system get service imagenet-runtime-service
    claim "its servers are ready again" kubectl -n paddle-system rollout status statefulset/imagenet-runtime --timeout=90s
}
operates() {
    kubectl get namespace paddle-system >/dev/null 2>&1 || kubectl create namespace paddle-system >/dev/null
    kubectl -n paddle-system create secret generic imagenet --from-literal=access-key=a --from-literal=secret-key=b >/dev/null
    claim "the operator leads" operator_up "$(by_token)"
    printed >"$W/printed.yaml"
    claim "the article's two files apply" kubectl apply -f "$W/printed.yaml"
    claim "the set's claim is bound" eval 'until_true 20 kubectl -n paddle-system get pvc imagenet && kubectl -n paddle-system wait --for=jsonpath={.status.phase}=Bound pvc/imagenet --timeout=60s'
    claim "so is that of the job's namespace" kubectl wait --for=jsonpath='{.status.phase}'=Bound pvc/paddle-system.imagenet --timeout=60s
    claim "its servers are ready" eval 'until_true 60 kubectl -n paddle-system get statefulset imagenet-runtime && kubectl -n paddle-system rollout status statefulset/imagenet-runtime --timeout=90s'
    puts_back
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
    claim "all it watched came over one connection" eval '[ "$(connections | tee /dev/stderr | wc -l)" = 1 ]'
    operator_down
    kubectl delete namespace paddle-system --wait=false >/dev/null
}

# --- 100 sets and 200 jobs of 8 workers at once; CROWD_SETS, CROWD_JOBS: so many ----------------------------------------------------------
metric() { curl -sf "$pages/metrics" | awk -v name="$1" '$1 == name { print $2 }'; } # NAME{LABELS}
requests() { echo $(($(metric 'sampan_operator_api_requests_total{verb="read"}') + $(metric 'sampan_operator_api_requests_total{verb="write"}'))); }
crowd_of() { # SETS JOBS
    local n
    for ((n = 0; n < $1; n++)); do
        printf -- '---\napiVersion: batch.paddlepaddle.org/v1alpha1\nkind: SampleSet\nmetadata: {name: set-%d}\nspec: {partitions: 2, source: {uri: "s3://bucket/%d"}}\n' $n $n
    done
    for ((n = 0; n < $2; n++)); do
        printf -- '---\napiVersion: batch.paddlepaddle.org/v1\nkind: PaddleJob\nmetadata: {name: job-%d}\n' $n
        printf 'spec: {sampleSetRef: {name: set-%d, mountPath: /data}, startPolicy: Immediate, worker: {replicas: 8, template: {spec: {containers: [{name: t, image: "x:1"}]}}}}\n' $((n % $1))
    done
}
jobs_in() { kubectl get pdj -o 'jsonpath={range .items[*]}{.status.phase}{"\n"}{end}' | grep -cx "$1"; }
rests() { # or says what it did meanwhile
    local before
    before=$(requests)
    curl -sf "$pages/metrics" >"$W/metrics.before"
    sleep 20
    curl -sf "$pages/metrics" | diff "$W/metrics.before" - | grep '^>.*_total'
    [ $(($(requests) - before)) -le 12 ] # every 2 s
}
crowd() {
    local began thread sets=${CROWD_SETS:-100} jobs=${CROWD_JOBS:-200}
    cluster up --level 2 --fake 20
    pages=$(free_url)
    claim "the operator leads" operator_up "$(by_token)" --metrics "${pages#http://}"
    # All of Kubernetes shares its cores, and decisions are timed by the wall clock.
    for thread in /proc/"$operator_pid"/task/*; do renice -n -15 -p "${thread##*/}" >/dev/null; done
    crowd_of "$sets" "$jobs" >"$W/crowd.yaml"
    began=$SECONDS
    claim "$sets sets and $jobs jobs of 8 apply" kubectl create -f "$W/crowd.yaml"
    claim "all jobs run" until_true 900 eval '[ "$(jobs_in Running)" = "$jobs" ]'
    claim "all sets have their servers" until_true 300 eval '[ "$(kubectl get sampleset -o "jsonpath={range .items[*]}{.status.runtimeStatus.runtimeReady}{\"\n\"}{end}" | grep -cx 2/2)" = "$sets" ]'
    echo "        after $((SECONDS - began)) s, $(requests) requests, $(grep VmHWM "/proc/$operator_pid/status")"
    claim "the operator had less than 200 MiB" eval '[ "$(awk "/VmHWM/ { print \$2 }" "/proc/$operator_pid/status")" -lt $((200 << 10)) ]'
    # Of a set: volume, claim, secret, service, StatefulSet; of a job: a ConfigMap and its pods.
    claim "at most 5 requests an object that it made" eval '[ "$(requests)" -lt $((5 * (sets * 5 + jobs * 9))) ]'
    echo "        99 of 100 decisions took less than (s): $(curl -sf "$pages/metrics" | .venv/bin/python -c '
import sys
sys.path[:0] = ["tests/bench", "tests/lib"]
from operator_crowd import p99
text, cpu = sys.stdin.read(), "decide_cpu"
print(*(f"{c} {p99(text, c)}, on a core {p99(text, c, cpu)};" for c in ("sampleset", "paddlejob")))') CPU $(ps -o time= -p "$operator_pid"), load $(cut -d' ' -f1 /proc/loadavg)"
    claim "its queues are empty" until_true 120 eval '[ "$(curl -sf "$pages/metrics" | awk "/^sampan_operator_queue_failing/ { n += \$2 } END { print n }")" = 0 ]'
    claim "at rest it renews the lease and asks nothing else" until_true 240 rests
    claim "all go" eval 'kubectl delete pdj --all --timeout=300s && kubectl delete sampleset --all --timeout=600s && until_true 120 nothing_of_ours'
    claim "its rights were enough" eval '! grep -i "forbidden\|cannot list" "$W/operator.log"'
    operator_down
}

operator_deployed
for part in ${OPERATOR_PARTS:-operates with_more ${SLOW:+crowd}}; do $part; done

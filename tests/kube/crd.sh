# shellcheck shell=bash
# Sourced by tests/kube/run: the definitions of deploy/crd in a real API server.

set_of() { # NAME <<SPEC : a SampleSet in default
    printf 'apiVersion: batch.paddlepaddle.org/v1alpha1\nkind: SampleSet\nmetadata: {name: %s}\nspec:\n' "$1" && sed 's/^/  /'
}
job_of() { printf 'apiVersion: batch.paddlepaddle.org/v1alpha1\nkind: SampleJob\nmetadata: {name: %s}\nspec:\n' "$1" && sed 's/^/  /'; }
training_of() { printf 'apiVersion: batch.paddlepaddle.org/v1\nkind: PaddleJob\nmetadata: {name: %s}\nspec:\n' "$1" && sed 's/^/  /'; }
bad() { # WHAT TEXT BUILDER <<SPEC : it is refused, and the message holds the text
    local what=$1 text=$2 builder=$3
    "$builder" bad >"$W/bad.yaml"
    claim "refused: $what" eval "refused '${text//\'/\'\\\'\'}' <'$W/bad.yaml'"
}
frozen() { # FIELD KIND/NAME PATCH : a change that is refused
    claim "frozen: $1" eval "! kubectl patch $2 --type=merge -p '$3' && grep -q 'cannot be changed' '$W/claim.out'"
}

undocumented() { # every field that a user may write is explained
    .venv/bin/python - deploy/crd/*[bt].yaml <<'END'
import sys, yaml
missing = []
def walk(schema, path):
    for name, field in schema.get("properties", {}).items():
        at = f"{path}.{name}"
        structural = path.count(".") == 0 and name in ("apiVersion", "kind", "metadata")
        if not structural and not field.get("description") and "nodeSelectorTerms[]" not in at and at.split(".")[-1] not in (
                "required", "weight", "preference", "requests", "limits", "matchFields", "matchExpressions",
                "requiredDuringSchedulingIgnoredDuringExecution"):
            missing.append(at)
        walk(field, at)
        if "items" in field:
            walk(field["items"], at + "[]")
for path in sys.argv[1:]:
    crd = yaml.safe_load(open(path))
    for version in crd["spec"]["versions"]:
        walk(version["schema"]["openAPIV3Schema"], crd["spec"]["names"]["kind"])
print("\n".join(missing))
sys.exit(1 if missing else 0)
END
}

accepted() {
    claim "the definitions are taken" kubectl apply -k deploy/crd
    claim "and established" kubectl wait --for=condition=Established crd/samplesets.batch.paddlepaddle.org \
        crd/samplejobs.batch.paddlepaddle.org crd/paddlejobs.batch.paddlepaddle.org crd/trainingjobs.paddlepaddle.org --timeout=60s
    claim "nothing about their schemas is wrong" eval \
        '! kubectl get crd -o "jsonpath={.items[*].status.conditions[?(@.type==\"NonStructuralSchema\")].message}" | grep .'
    claim "every field is explained" undocumented
    local kind
    for kind in sampleset samplejob paddlejob trainingjob; do
        claim "kubectl explain $kind" eval "kubectl explain --recursive $kind.spec && kubectl explain --recursive $kind.status"
    done
    claim "short names" eval 'kubectl get ss,pdj,sj -A || kubectl get ss,pdj -A'
    until_true 30 kubectl get samplesets >/dev/null 2>&1
    kubectl get namespace paddle-system >/dev/null 2>&1 || kubectl create namespace paddle-system >/dev/null
}

applies() {
    printed >"$W/printed.yaml"
    claim "the article's two files apply" kubectl apply --validate=strict -f "$W/printed.yaml"
    claim "what was written is kept" eval '[ "$(field pdj resnet "{.spec.worker.template.spec.containers[0].resources.limits.nvidia\.com/gpu}")" = 2 ]'
    claim "partitions have a default" eval 'set_of plain <<<"source: {uri: \"s3://b/p\"}" | kubectl apply -f - &&
        [ "$(field sampleset plain "{.spec.partitions} {.spec.noSync} {.spec.source.uri}")" = "1 false s3://b/p" ]'
    local file
    for file in deploy/examples/*.yaml; do
        grep -q batch.paddlepaddle.org "$file" || continue
        claim "$file applies" kubectl apply --dry-run=server --validate=strict -f "$file"
    done
    claim "upstream's cache, csi, affinity and tolerations" eval 'set_of full | kubectl apply --validate=strict -f -' <<'END'
partitions: 2
source: {uri: "bos://bucket.bj.bcebos.com/x", secretRef: {name: src}}
secretRef: {name: keys}
noSync: false
csi: {driver: juicefs, juiceFSMountOptions: {open-cache: 7200, cache-size: 307200, no-bgjob: true}}
cache: {levels: [{mediumType: SSD, path: "/mnt/disk1:/mnt/disk2", cacheSize: 100000}, {mediumType: MEM, path: /dev/shm/x, cacheSize: 4096}]}
nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n1, n2]}]}]}}
tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}]
END
    claim "upstream's jobs" eval 'job_of warm | kubectl apply --validate=strict -f -' <<'END'
type: warmup
sampleSetRef: {name: full}
warmupOptions: {paths: [train], partitions: 2, strategyName: random}
END
    claim "a parameter-server job" eval 'training_of wide | kubectl apply --validate=strict -f -' <<'END'
cleanPodPolicy: Never
intranet: Service
withGloo: 1
schedulingPolicy: {queue: default, minAvailable: 4, minResources: {cpu: 4, memory: 4Gi}}
ps: {replicas: 2, requests: 1, limits: 4, template: {spec: {containers: [{name: p, image: "x:1"}]}}}
worker: {replicas: 2, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: p, image: "x:1"}]}}}
END
}

refuses() {
    bad "no partition" 'spec.partitions: Invalid value: 0' set_of <<<'{partitions: 0, source: {uri: "s3://b/p"}}'
    bad "a URI without a scheme" 'spec.source.uri' set_of <<<'{source: {uri: "bucket/prefix"}}'
    bad "no source" 'give one of source and sources' set_of <<<'{partitions: 1}'
    bad "a source that says nothing" 'give one of uri and persistentVolumeClaim' set_of <<<'{source: {}}'
    bad "two sources in one" 'give one of uri and persistentVolumeClaim' set_of <<<'{source: {uri: "s3://b/p", persistentVolumeClaim: {name: c}}}'
    bad "a cache folder that is not absolute" 'spec.cache.levels[0].path' set_of <<<'{source: {uri: "s3://b/p"}, cache: {levels: [{mediumType: SSD, path: cache}]}}'
    bad "a medium that nobody knows" 'Unsupported value: "TAPE": supported values: "MEM", "SSD", "HDD"' set_of \
        <<<'{source: {uri: "s3://b/p"}, cache: {levels: [{mediumType: TAPE, path: /c}]}}'
    bad "an unknown operator in the affinity" 'Unsupported value: "Within"' set_of \
        <<<'{source: {uri: "s3://b/p"}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Within}]}]}}}'
    bad "fewer at most than at least" 'minPartitions must not be above maxPartitions' set_of <<<'{source: {uri: "s3://b/p"}, autoscale: {minPartitions: 4, maxPartitions: 2}}'
    bad "another CSI driver" 'supported values: "sampan", "juicefs"' set_of <<<'{source: {uri: "s3://b/p"}, csi: {driver: s3fs}}'
    bad "a field that nobody knows" 'unknown field "spec.partition"' set_of <<<'{partition: 2, source: {uri: "s3://b/p"}}'
    bad "a job of no type" 'spec.type: Required value' job_of <<<'{sampleSetRef: {name: a}}'
    bad "a type that nobody knows" 'Unsupported value: "copy"' job_of <<<'{type: copy, sampleSetRef: {name: a}}'
    bad "a job for no set" 'give one of sampleSetRef and sampleset' job_of <<<'{type: warmup}'
    bad "rmr of nothing" 'type rmr wants rmrOptions' job_of <<<'{type: rmr, sampleSetRef: {name: a}}'
    bad "evict without a measure" 'give exactly one of olderThan, unusedFor and toSize' job_of <<<'{type: evict, sampleSetRef: {name: a}, evictOptions: {from: cache}}'
    bad "an evict that only says what it would do" 'dry is not known to evict' job_of <<<'{type: evict, sampleSetRef: {name: a}, evictOptions: {toSize: 0, dry: true}}'
    bad "evict by two measures" 'give exactly one of olderThan, unusedFor and toSize' job_of <<<'{type: evict, sampleSetRef: {name: a}, evictOptions: {olderThan: 1d, toSize: 0}}'
    bad "a time that is none" 'spec.evictOptions.olderThan' job_of <<<'{type: evict, sampleSetRef: {name: a}, evictOptions: {olderThan: soon}}'
    bad "a job without pods" 'give worker, or ps and worker' training_of <<<'{cleanPodPolicy: Never}'
    bad "samples nowhere" 'sampleSetRef wants a mountPath' training_of <<<'{sampleSetRef: {name: a}, worker: {replicas: 1, template: {}}}'
    bad "results both here and there" 'give one of sampleSetRef and persistentVolumeClaim' training_of \
        <<<'{output: {mountPath: /o, sampleSetRef: {name: a}, persistentVolumeClaim: {name: b}}, worker: {replicas: 1, template: {}}}'
    bad "an unknown way to clean up" 'Unsupported value: "Sometimes"' training_of <<<'{cleanPodPolicy: Sometimes, worker: {replicas: 1, template: {}}}'
    frozen "the source" sampleset/full '{"spec":{"source":{"uri":"s3://other/x"}}}'
    frozen "the source, taken away" sampleset/full '{"spec":{"source":null,"sources":[{"uri":"s3://other/x"}]}}'
    frozen "the cache" sampleset/full '{"spec":{"cache":{"levels":[{"mediumType":"HDD","path":"/y"}]}}}'
    frozen "the cache, taken away" sampleset/full '{"spec":{"cache":null}}'
    frozen "the driver" sampleset/full '{"spec":{"csi":{"driver":"sampan"}}}'
    frozen "the affinity" sampleset/full '{"spec":{"nodeAffinity":{"required":{"nodeSelectorTerms":[]}}}}'
    frozen "the type of a job" samplejob/warm '{"spec":{"type":"clear"}}'
    frozen "the set of a job" samplejob/warm '{"spec":{"sampleSetRef":{"name":"plain"}}}'
    claim "partitions may change" kubectl patch sampleset full --type=merge -p '{"spec":{"partitions":3}}'
    claim "so may replicas" kubectl patch paddlejob wide --type=merge -p '{"spec":{"worker":{"replicas":3}}}'
    claim "the status is a resource of its own" eval 'kubectl patch sampleset full --subresource=status --type=merge \
        -p "{\"status\":{\"phase\":\"Ready\",\"cacheStatus\":{\"totalSize\":\"138 GiB\",\"cachedSize\":\"138 GiB\",\"diskAvail\":\"1.1 TiB\"},\"runtimeStatus\":{\"readyReplicas\":2,\"specReplicas\":2,\"runtimeReady\":\"2/2\"}}}" &&
        kubectl patch sampleset full --type=merge -p "{\"status\":{\"phase\":\"Bound\"}}" && [ "$(field sampleset full "{.status.phase}")" = Ready ]'
    claim "kubectl get shows the article's columns" shows 'NAME +TOTAL SIZE +CACHED SIZE +AVAIL SPACE +RUNTIME +PHASE +AGE' kubectl get sampleset full
    claim "and their values" shows 'full +138 GiB +138 GiB +1.1 TiB +2/2 +Ready' kubectl get sampleset full
    claim "an unknown phase is no phase" eval '! kubectl patch sampleset full --subresource=status --type=merge -p "{\"status\":{\"phase\":\"Fine\"}}"'
}

# The chart's: a release of before without short names for sets is upgraded, and uninstalled.
by_chart() {
    local release=(--namespace sampan-system --set csi.enabled=false --set operator.enabled=false)
    [ -x "$helm" ] || { skipped "definitions by the chart" "no helm (the part charts builds it)" && return 0; }
    kubectl delete -k deploy/crd >/dev/null
    cp -rL deploy/charts/sampan "$W/older"
    sed -i '/shortNames:/d' "$W/older/definitions/sampleset.yaml"
    claim "the chart installs the definitions" "$helm" install release "$W/older" --create-namespace "${release[@]}"
    claim "a set of before" eval 'until_true 30 kubectl get samplesets && set_of before <<<"{source: {uri: s3://b/x}}" | apply'
    claim "whose kind has no short name yet" eval '[ -z "$(field crd samplesets.batch.paddlepaddle.org "{.spec.names.shortNames}")" ]'
    claim "a release that is upgraded" "$helm" upgrade release deploy/charts/sampan "${release[@]}"
    claim "has the new definitions" shows '"ss"' field crd samplesets.batch.paddlepaddle.org '{.spec.names.shortNames}'
    claim "one that is uninstalled" "$helm" uninstall release --namespace sampan-system
    claim "leaves them, and the set" kubectl get sampleset before
}

# kubeconform by what this API server says of its kinds: all that is rendered, and every example.
kubeconform=${helm%/*}/kubeconform
! command -v kubeconform >/dev/null || kubeconform=$(command -v kubeconform)
if [ ! -x "$kubeconform" ] && command -v go >/dev/null; then
    echo "building kubeconform (a minute, once) ..."
    GOBIN=$(dirname "$kubeconform") GOFLAGS=-trimpath timeout 600 go install github.com/yannh/kubeconform/cmd/kubeconform@v0.7.0 >"$W/kubeconform.log" 2>&1 ||
        tail -n 3 "$W/kubeconform.log"
fi
conform() { "$kubeconform" -strict -summary -schema-location "$W/schemas/{{.Group}}-{{.ResourceKind}}-{{.ResourceAPIVersion}}.json" "$@"; }
schemas() {
    kubectl get --raw /openapi/v2 >"$W/openapi.json" && .venv/bin/python tests/kube/schemas.py "$W/openapi.json" "$W/schemas" &&
        [ -e "$W/schemas/batch.paddlepaddle.org-sampleset-v1alpha1.json" ] # soon after it is established
}
conforms() {
    local folder
    [ -x "$kubeconform" ] || { skipped kubeconform "it is not there, and no Go compiler to build it" && return 0; }
    claim "schemas of the API server" until_true 30 schemas
    for folder in deploy/crd deploy/csi deploy/operator; do kubectl kustomize "$folder" && echo ---; done >"$W/conform.yaml"
    claim "kubeconform: the kustomizations, the examples, the article's files" conform "$W/conform.yaml" deploy/examples/*.yaml "$W/printed.yaml"
    sed 's/partitions: 2/partitions: two/' "$W/printed.yaml" >"$W/conform-bad.yaml"
    claim "kubeconform: what is wrong is found" eval '! conform "$W/conform-bad.yaml" && grep -q "imagenet is invalid" "$W/claim.out"'
    [ -x "$helm" ] || { skipped "kubeconform: the chart" "no helm (the part charts builds it)" && return 0; }
    claim "helm template" eval '"$helm" template sampan deploy/charts/sampan -n sampan-system --kube-version 1.34.0 >"$W/conform-chart.yaml"'
    claim "kubeconform: the chart" conform "$W/conform-chart.yaml"
}

for part in accepted applies conforms refuses; do $part; done
kubectl delete sampleset,samplejob,paddlejob --all -A >/dev/null
by_chart
kubectl delete sampleset --all -A >/dev/null
kubectl delete -k deploy/crd >/dev/null # the story's chart brings its own

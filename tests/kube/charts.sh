# shellcheck shell=bash
# Sourced by tests/kube/run: the chart and the kustomizations are the same objects. No cluster is needed.
built_helm
chart=deploy/charts/sampan

render() { # ARGS... : the chart's objects, as they would be installed
    "$helm" template sampan $chart -n sampan-system --kube-version 1.34.0 "$@"
}
kustomized() {
    local folder
    for folder in deploy/crd deploy/csi deploy/operator; do
        [ ! -e "$folder/kustomization.yaml" ] || { kubectl kustomize "$folder" && echo ---; }
    done
}
as_kustomized() {
    render >"$W/chart.yaml" && kustomized >"$W/kustomized.yaml" &&
        .venv/bin/python tests/kube/same-objects.py "$W/chart.yaml" "$W/kustomized.yaml"
}
holds() { # PATTERN ARGS...: what is rendered with ARGS is YAML and holds the line
    local pattern=$1
    shift
    render "$@" >"$W/rendered.yaml" || return 1
    .venv/bin/python -c 'import sys, yaml; list(yaml.safe_load_all(open(sys.argv[1])))' "$W/rendered.yaml" && grep -qE -- "$pattern" "$W/rendered.yaml"
}
holds_not() { ! holds "$@"; }
charts() {
    claim "helm lint finds nothing" "$helm" lint --strict --kube-version 1.34.0 $chart
    claim "the chart with its defaults is what the kustomizations are" as_kustomized
    claim "a registry goes before every image" eval \
        'holds "image: r.test/m/sampan/csi:" --set registry=r.test/m && ! grep "image:" "$W/rendered.yaml" | grep -v "r.test/m/\|image: *$"'
    claim "another folder of kubelet goes everywhere" eval 'holds state=/data/kubelet/ --set kubeletDir=/data/kubelet && ! grep -q /var/lib/kubelet "$W/rendered.yaml"'
    claim "another name of the driver goes everywhere" eval \
        'holds driver-name=other.test --set csi.driverName=other.test && ! grep -v "^ *description:\|^ *-* *name: csi.sampan.io$" "$W/rendered.yaml" | grep -q "csi\.sampan\.io"'
    claim "keys of a registry, policies, tolerations" holds 'imagePullSecrets: \[\{"name":"k"\}\]' --set 'imagePullSecrets[0].name=k' \
        --set imagePullPolicy=Always --set 'csi.node.tolerations[0].key=gpu' --set 'csi.node.affinity.x=y' --set 'csi.node.extraArgs[0]=--x'
    claim "folders of nodes for sets" holds '- "--set-file=/data/sets"' --set 'operator.setFiles[0]=/data/sets'
    claim "folders of nodes for inline volumes" holds '- "--inline-file=/data/sets"' --set 'csi.node.inlineFiles[0]=/data/sets'
    claim "no liveness sidecar" eval 'holds "port: metrics}, initialDelaySeconds: 15, periodSeconds: 30, timeoutSeconds" --set csi.node.livenessSidecar=false &&
        ! grep -q "livenessprobe:\|9809" "$W/rendered.yaml"'
    claim "the controller's records in a claim" holds 'claimName: records' --set csi.controller.state.claim=records
    claim "parameters of a StorageClass are texts, whatever was written" eval \
        'holds "^  writable: \"true\"$" --set csi.storageClasses[0].parameters.writable=true && grep -q "^  memory: \"536870912\"$" <(render --set csi.storageClasses[0].name=x \
            --set csi.storageClasses[0].parameters.memory=536870912)'
    claim "no StorageClass" holds_not 'kind: StorageClass' --set 'csi.storageClasses=null'
    claim "the operator's options" holds 'etcd=http://e:2379' --set operator.volcano=true --set operator.etcdServers=http://e:2379 \
        --set operator.replicas=1 --set 'operator.nodeSelector.a=b' --set 'operator.extraArgs[0]=--qps=50'
    claim "the definitions are upgraded with the release, and stay when it goes" eval \
        'render >"$W/rendered.yaml" && [ "$(grep -c "^kind: CustomResourceDefinition" "$W/rendered.yaml")" = 4 ] &&
         [ "$(grep -c "helm.sh/resource-policy: keep" "$W/rendered.yaml")" = 4 ] && [ ! -e $chart/crds ]'
    claim "no definitions" holds_not CustomResourceDefinition --set definitions.install=false
    claim "no operator" holds_not sampan-operator --set operator.enabled=false
    claim "no driver" holds_not 'DaemonSet' --set csi.enabled=false
}
if [ ! -x "$helm" ]; then
    skipped charts "no helm, and no Go compiler to build it"
elif ! command -v kubectl >/dev/null; then
    skipped charts "no kubectl, which renders the kustomizations"
else
    charts
fi

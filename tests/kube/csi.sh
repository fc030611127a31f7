# shellcheck shell=bash
# Sourced by tests/kube/run: the CSI driver on two real nodes, deployed by deploy/csi.
# CSI_PARTS='deployed loses' runs these of its parts alone.
#
# Readers compare every byte with a copy of the samples in their own image, and drop each file's pages after
# reading it, so that reads go on reaching the owner; the mount's own status tells how many did.
. tests/kube/nodes.sh

images() {
    csi_images
    mapfile -t files < <(reference_files "$W/set")
    tests/kube/image sampan-test/reader:1 "$W/images/reader.tar" --box "$SAMPAN_BUILD/tools/verify-reader" "${files[@]}"
    cluster load "$W"/images/*.tar
}

volume() { # NAME SECRET BUCKET/PREFIX [NAMESPACE] : a PV of a set, whose secret lies there, and its claim
    cat <<END
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: $1}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadOnlyMany]
  storageClassName: ""
  claimRef: {name: $1, namespace: default}
  csi:
    driver: csi.sampan.io
    volumeHandle: $1
    volumeAttributes: {uri: "s3://$3", endpoint: "$store", region: us-east-1, cache: "ssd:/var/cache/sampan/$1=256MiB"}
    nodeStageSecretRef: {name: $2, namespace: ${4:-default}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $1}
spec: {accessModes: [ReadOnlyMany], storageClassName: "", volumeName: $1, resources: {requests: {storage: 1Gi}}}
END
}

pod() { # NAME CLAIM NODE COMMAND... : /data is the claim; PROPAGATION=HostToContainer follows its mount
    local name=$1 claim=$2 node=$3
    shift 3
    cat <<END
---
apiVersion: v1
kind: Pod
metadata: {name: $name}
spec:
  restartPolicy: ${RESTART:-Never}
  nodeSelector: {kubernetes.io/hostname: node-$node}
  terminationGracePeriodSeconds: 5
  containers:
  - name: main
    image: sampan-test/reader:1
    command: [$(printf '"%s",' "$@" | sed 's/,$//')]
    volumeMounts: [{name: data, mountPath: /data, mountPropagation: ${PROPAGATION:-None}}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: $claim}}]
END
}

ended() { kubectl wait --for=jsonpath='{.status.phase}'="${2:-Succeeded}" "pod/$1" --timeout="${3:-90}s"; }
all_right() { # POD : the reader's last line
    kubectl logs "$1" | tail -n 1
    kubectl logs "$1" | tail -n 1 | grep -q '"errors_total":0,"mismatches":0,"hung":0,'
}

reads_go_on() { # POD : more reads reach the owner than did
    local before
    before=$(status_of "$1" reads.total) || return 1
    until_true 60 eval "[ \"\$(status_of $1 reads.total 2>/dev/null || echo 0)\" -gt $((before + 50)) ]"
}

# --- the parts ------------------------------------------------------------------------------------
deployed() {
    kubectl label --overwrite node node-0 node-role.kubernetes.io/control-plane= >/dev/null
    kubectl apply -k tests/kube/overlay >/dev/null
    claim "the driver's pods are ready on both nodes" kubectl -n sampan-system rollout status daemonset/sampan-csi-node --timeout=120s
    if [ -x "$KUBE_TOOLS/csi-provisioner" ]; then
        claim "the controller is ready" kubectl -n sampan-system rollout status deployment/sampan-csi-controller --timeout=120s
    fi
    claim "kubelet knows the driver" until_true 60 eval 'kubectl get csinode node-0 -o yaml | grep -q csi.sampan.io'
    kubectl create secret generic keys --from-literal=access-key=cluster-test --from-literal=secret-key=cluster-test-secret >/dev/null
    kubectl -n sampan-system create secret generic sampan-store --from-literal=access-key=cluster-test \
        --from-literal=secret-key=cluster-test-secret >/dev/null
}

reads() {
    { volume flowers keys samples/set; pod once flowers 0 /usr/bin/verify-reader --drop --passes 2 --seconds 60 /reference /data
      pod twice flowers 1 /usr/bin/verify-reader --drop --passes 2 --seconds 60 /reference /data; } | apply
    claim "a pod with a claim ends well" ended once
    claim "it read every byte as it is in the bucket" all_right once
    claim "so does one on the other node" eval 'ended twice && all_right twice'
    kubectl delete pod once twice >/dev/null
}

inline() {
    kubectl create secret generic inline-keys --from-literal=access-key=cluster-test --from-literal=secret-key=cluster-test-secret >/dev/null
    apply <<END
apiVersion: v1
kind: Pod
metadata: {name: inline}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: "sampan-test/reader:1", command: [/usr/bin/verify-reader, --passes, "1", /reference, /data], volumeMounts: [{name: data, mountPath: /data}]}
  volumes:
  - name: data
    csi:
      driver: csi.sampan.io
      readOnly: true
      volumeAttributes: {uri: "s3://samples/set", endpoint: "$store", region: us-east-1}
      nodePublishSecretRef: {name: inline-keys}
END
    claim "a pod reads an inline volume" eval 'ended inline && all_right inline'
    kubectl delete pod inline >/dev/null
}

# The reader runs all the while; each claim is that it goes on, the last one that it never saw anything.
survives() {
    local pid keeper
    pod reader flowers 0 /usr/bin/verify-reader --drop --seconds 36000 --threads 2 /reference /data | apply
    claim "a long reader runs" eval 'ended reader Running && until_true 30 reads_go_on reader'

    kubectl -n sampan-system delete "$(plugin_pod 0)" --wait=false >/dev/null
    claim "it reads on while the plugin's pod is deleted" reads_go_on reader
    claim "the plugin comes back" until_true 90 plugin_ready 0

    pid=$(status_of reader pid)
    kill_on 0 "$pid"
    claim "it reads on after cachefs is killed" eval "until_true 60 owner_is_another reader $pid && reads_go_on reader"

    pid=$(status_of reader pid) keeper=$(status_of reader keeper_pid)
    kill_on 0 "$pid" "$keeper"
    claim "it reads on after cachefs and its keeper are killed together" eval "until_true 60 owner_is_another reader $pid && reads_go_on reader"

    pid=$(status_of reader pid)
    kubectl -n sampan-system delete "$(plugin_pod 0)" --grace-period=1 --wait=false >/dev/null
    kill_on 0 "$pid"
    claim "it reads on after cachefs is killed while the plugin's pod is deleted" eval "until_true 60 owner_is_another reader $pid && reads_go_on reader"
    until_true 90 plugin_ready 0

    upgrade_plugin
    kubectl exec reader -- kill -TERM 1
    claim "the reader ends" ended reader
    claim "it has seen no error and no wrong byte" all_right reader
    kubectl delete pod reader >/dev/null
    claim "its mount ends, which is older than the plugin's pod" until_true 60 eval 'plugin_says 0 | grep -q "NodeUnstageVolume volume=flowers"'
    claim "no container of that pod had kept a copy" eval '! plugin_says 0 | grep "its processes are told to end"'
}
plugin_says() { kubectl -n sampan-system logs "$(plugin_pod "$1")" -c sampan; }

# Another version: the same programs with a mark, so that they are other files.
upgrade_plugin() {
    local old
    old=$(processes_on 0 | awk '{ print $2 }' | sort -u)
    mkdir -p "$W/bin-next"
    cp "$SAMPAN_BUILD"/bin/sampan* "$W/bin-next/"
    echo next >"$W/mark"
    objcopy --add-section .sampan-mark="$W/mark" --set-section-flags .sampan-mark=alloc "$W/bin-next/sampan"
    deploy/images/build --bin "$W/bin-next" --out "$W/images-next" --tag 0.1.1 csi >/dev/null
    cp "$W/images-next/csi.tar" "$W/images-next/csi-next.tar"
    cluster load "$W/images-next/csi-next.tar"
    kubectl -n sampan-system set image daemonset/sampan-csi-node sampan=sampan/csi:0.1.1 >/dev/null
    claim "a new version of the plugin rolls out" kubectl -n sampan-system rollout status daemonset/sampan-csi-node --timeout=180s
    claim "it reads on under the new version" reads_go_on reader
    claim "its programs are the new ones" until_true 60 eval '! processes_on 0 | grep -qF "$(echo "'"$old"'" | grep /sampan$ | head -n 1)"'
}

# The secret of a PV lies in any namespace: whoever may make PVs says so.
secret_elsewhere() {
    kubectl create namespace vault >/dev/null
    kubectl -n vault create secret generic vault-keys --from-literal=access-key=cluster-test --from-literal=secret-key=cluster-test-secret >/dev/null
    { volume afar vault-keys samples/set vault; pod afar afar 1 /usr/bin/verify-reader --passes 1 /reference /data; } | apply
    claim "the secret of another namespace is used" eval 'ended afar && all_right afar'
    kubectl delete pod/afar pvc/afar pv/afar >/dev/null
    kubectl delete namespace vault --wait=false >/dev/null
}

# --- all that holds a mount is killed at once ---------------------------------------------------------
restart_needed() { # POD : how many such events it has
    kubectl get events --field-selector "involvedObject.name=$1,reason=RestartNeeded" -o name | wc -l
}
kill_all_holders() { # NODE POD
    local pids plugin
    pids="$(status_of "$2" pid) $(status_of "$2" keeper_pid)"
    plugin=$(cluster node "$1" sh -c 'for p in /proc/[0-9]*; do tr "\\0" " " <$p/cmdline | grep -q "^[^ ]*sampan-csi .*--host" && echo ${p#/proc/}; done' | tr '\n' ' ')
    [ -n "$plugin" ] && [ ${#pids} -gt 3 ] || { echo "plugin $plugin, owner and keeper $pids"; return 1; }
    # Neither of them starts another.
    cluster node "$1" sh -c "kill -STOP $plugin $pids; kill -KILL $plugin $pids"
}
loses() {
    PROPAGATION=HostToContainer pod follows flowers 0 sleep 36000 | apply
    pod stays flowers 0 sleep 36000 | apply
    claim "two pods have a mount" eval 'ended follows Running && ended stays Running && status_of stays pid'
    claim "owner, keeper and plugin are killed at once" kill_all_holders 0 follows
    until_true 120 plugin_ready 0
    claim "the pod that follows its volume sees the new mount" until_true 120 status_of follows pid
    claim "the other one does not" eval '! status_of stays pid'
    claim "it has an Event that says RestartNeeded" until_true 120 eval '[ "$(restart_needed stays)" = 1 ]'
    claim "the one that follows has none" eval '[ "$(restart_needed follows)" = 0 ]'
    kubectl delete pod stays --grace-period=1 >/dev/null
    pod stays flowers 0 /usr/bin/verify-reader --passes 1 /reference /data | apply
    claim "started again it reads" eval 'ended stays && all_right stays'
    kubectl delete pod stays follows --grace-period=1 >/dev/null
}

# --- what goes wrong is in the pod's events ----------------------------------------------------------
event_says() { # POD PATTERN
    kubectl get events --field-selector "involvedObject.name=$1" -o 'jsonpath={range .items[*]}{.reason}: {.message}{"\n"}{end}' >"$W/events"
    cat "$W/events"
    grep -E '^Failed(Mount|MountVolume)' "$W/events" | grep -Eq -- "$2"
}
wrong() {
    kubectl create secret generic wrong-keys --from-literal=access-key=cluster-test --from-literal=secret-key=not-the-secret >/dev/null
    kubectl create secret generic odd-keys --from-literal=password=x >/dev/null
    { volume wrong-key wrong-keys samples/set; pod wrong-key wrong-key 1 true
      volume odd-key odd-keys samples/set; pod odd-key odd-key 1 true
      volume no-bucket keys nowhere/set; pod no-bucket no-bucket 1 true
      volume no-secret missing samples/set; pod no-secret no-secret 1 true; } | apply
    claim "a wrong key shows in the pod's events" until_true 90 event_says wrong-key 'wrong-key.*(denied|Signature|refused|403)|(denied|Signature|403)'
    claim "a bucket that is not there shows, by its name" until_true 90 event_says no-bucket 'nowhere'
    claim "a secret without a key that is known shows" until_true 90 event_says odd-key 'access-key'
    claim "a secret that is not there shows, by its name" until_true 90 event_says no-secret 'missing'
    claim "no secret stands in any event" eval '! kubectl get events -A -o yaml | grep -q not-the-secret'
    kubectl delete pod wrong-key no-bucket odd-key no-secret --grace-period=0 --force >/dev/null 2>&1
    kubectl delete pvc wrong-key no-bucket odd-key no-secret >/dev/null
    kubectl delete pv wrong-key no-bucket odd-key no-secret >/dev/null
}

# --- claims of a StorageClass ------------------------------------------------------------------------
claims() {
    [ -x "$KUBE_TOOLS/csi-provisioner" ] || { skipped "claims of a StorageClass" "no csi-provisioner in KUBE_TOOLS" && return 0; }
    kubectl get storageclass sampan-outputs -o yaml | sed -e "s|s3://CHANGE-ME/outputs|s3://outputs/run|" \
        -e "s|^parameters:|parameters:\n  endpoint: $store\n  region: us-east-1|" -e 's/name: sampan-outputs/name: outputs/' \
        -e '/resourceVersion\|uid:\|creationTimestamp\|last-applied/d' -e '/^  annotations:/,/^  name:/{/^  name:/!d}' | apply
    apply <<'END'
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: results}
spec: {accessModes: [ReadWriteMany], storageClassName: outputs, resources: {requests: {storage: 1Gi}}}
END
    claim "a claim is bound" kubectl wait --for=jsonpath='{.status.phase}'=Bound pvc/results --timeout=90s
    pod writer results 0 sh -ec 'mkdir /data/run && cp -r /reference/. /data/run/ && sync /data/run && echo done >/data/run/complete' | apply
    claim "a pod writes to it" ended writer
    pod checker results 1 /usr/bin/verify-reader --passes 1 /reference /data/run | apply
    claim "a pod on the other node reads what was written" eval 'ended checker && all_right checker'
    claim "it is in the bucket, as objects" shows 'run/pvc-.*/run/complete' keys_of outputs
    kubectl delete pod writer checker >/dev/null
    kubectl delete pvc results >/dev/null
    claim "the prefix and its mark go with the claim" until_true 90 eval 'keys_of outputs >"$W/keys" && ! grep /pvc- "$W/keys"'
}

# --- a node loses its power ---------------------------------------------------------------------------
power() {
    RESTART=Always pod steady flowers 1 /usr/bin/verify-reader --drop --threads 2 --seconds 36000 /reference /data | apply
    claim "a pod reads on node-1" eval 'ended steady Running && until_true 30 reads_go_on steady'
    cluster cut 1
    mkdir "$W/outside" && "$SAMPAN" mount "file://$W/set" "$W/outside" --cache "ssd:$W/outside-cache=64MiB"
    cluster up --level 3 --nodes 2
    claim "a mount of the machine ends, whoever has booted meanwhile" "$SAMPAN" umount "$W/outside"
    claim "the node is back" kubectl wait --for=condition=Ready node/node-1 --timeout=120s
    claim "its plugin is back" until_true 120 plugin_ready 1
    claim "the pod's containers are started again, and read" until_true 120 reads_go_on steady
    kubectl exec steady -- kill -TERM 1
    claim "without an error since" until_true 60 eval 'kubectl logs --previous steady 2>/dev/null | tail -n 1 | grep -q "\"errors_total\":0,\"mismatches\":0,\"hung\":0,"'
    kubectl delete pod steady --grace-period=1 >/dev/null
    pod after flowers 1 /usr/bin/verify-reader --drop --passes 2 --seconds 60 /reference /data | apply
    claim "a pod reads verified samples there again" eval 'ended after && all_right after'
    kubectl delete pod after >/dev/null
}

gone() {
    kubectl delete pvc/flowers pv/flowers >/dev/null
    nothing_on 0
    nothing_on 1
    claim "the driver goes" kubectl delete -k tests/kube/overlay --timeout=120s # the story installs its own
}

python3 tests/lib/make-set.py "$W/set" --classes 4 --files 50 >/dev/null
store_up
in_bucket samples "$W/set" set/
images
for part in ${CSI_PARTS:-deployed reads inline secret_elsewhere survives loses wrong claims power gone}; do $part; done

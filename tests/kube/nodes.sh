# shellcheck shell=bash
# Sourced by the parts of tests/kube/run that need real nodes: a store for them, images, and what runs on a node.
#
#   store_up                 an S3 server at $store with the buckets samples and outputs; AWS_… reach it
#   in_bucket BUCKET DIR [PREFIX]   puts a folder there
#   keys_of BUCKET
#   csi_images               those of the driver and its sidecars, in $W/images
#   reference_files DIR      arguments of tests/kube/image: the folder's files, below /reference
#   status_of POD FIELD      of the mount at /data of the pod's first container, as it sees it
#   plugin_pod, plugin_ready, kill_on, processes_on, mounts_on      by the node's number

store=http://10.90.0.1:9000
store_up() { # one for all parts of a run
    export MINIO_ROOT_USER=cluster-test MINIO_ROOT_PASSWORD=cluster-test-secret
    export AWS_ACCESS_KEY_ID=$MINIO_ROOT_USER AWS_SECRET_ACCESS_KEY=$MINIO_ROOT_PASSWORD AWS_REGION=us-east-1 AWS_ENDPOINT_URL=$store
    [ ! -d "$W/store" ] || return 0
    mkdir -p "$W/store"
    tests/kube/cluster lan "$minio" server --quiet --address 10.90.0.1:9000 "$W/store" >"$W/store.log" 2>&1 &
    children+=($!)
    until_true 60 cluster lan curl -sf -o "$W/up" "$store/minio/health/ready"
    cluster lan .venv/bin/python tests/lib/s3.py make samples
    cluster lan .venv/bin/python tests/lib/s3.py make outputs
}
in_bucket() { cluster lan .venv/bin/python tests/lib/s3.py put "$@"; }
keys_of() { cluster lan .venv/bin/python tests/lib/s3.py keys "$1"; }

csi_images() {
    deploy/images/build --bin "$SAMPAN_BUILD/bin" --out "$W/images" csi
    tests/kube/image csi-node-driver-registrar:v2.13.0 "$W/images/registrar.tar" "$KUBE_TOOLS/csi-registrar"
    [ ! -x "$KUBE_TOOLS/csi-provisioner" ] ||
        tests/kube/image csi-provisioner:v5.2.0 "$W/images/provisioner.tar" "$KUBE_TOOLS/csi-provisioner"
}
reference_files() { (cd "$1" && find . -type f | sed 's|^\./||' | while read -r f; do printf '%s:/reference/%s\n' "$1/$f" "$f"; done); }

plugin_pod() { kubectl -n sampan-system get pods -l app=sampan-csi-node --field-selector "spec.nodeName=node-$1" -o name; }
plugin_ready() { # NODE: one pod, and it is ready
    kubectl -n sampan-system get pods -l app=sampan-csi-node --field-selector "spec.nodeName=node-$1" \
        -o 'jsonpath={range .items[*]}{.metadata.deletionTimestamp}{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}' | grep -qx True
}
kill_on() { cluster node "$1" kill -9 "${@:2}"; }
processes_on() { cluster node "$1" sh -c 'for p in /proc/[0-9]*; do case $(readlink $p/exe) in */csi.sampan.io/state/bin/*) echo ${p#/proc/} $(readlink $p/exe) ;; esac; done'; }
mounts_on() { cluster node "$1" sh -c 'grep -c "csi.sampan.io.* - fuse.sampan " /proc/self/mountinfo || true'; }
status_of() { # POD FIELD : of the mount, as the pod sees it
    kubectl exec "$1" -- cat /data/.sampan/status.json 2>/dev/null | .venv/bin/python -c '
import json, sys
value = json.load(sys.stdin)
for part in sys.argv[1].split("."):
    value = value[part]
print(value)' "$2" 2>/dev/null
}
owner_is_another() { # POD PID
    local now
    now=$(status_of "$1" pid) && [ "$now" != "$2" ]
}
nothing_on() { # NODE: no mount and no process of the driver's
    claim "no mount is left on node-$1" until_true 90 eval "[ \"\$(mounts_on $1)\" = 0 ]"
    claim "no process is left on node-$1" no_process_on "$1"
}
no_process_on() { # NODE: or says which, what they are doing, and what the plugin had to say
    until_true 60 eval "[ -z \"\$(processes_on $1)\" ]" && return
    cluster node "$1" sh -c 'for p in /proc/[0-9]*; do case $(readlink $p/exe) in */csi.sampan.io/state/bin/*)
        echo "${p#/proc/}: $(tr "\0" " " <$p/cmdline)"
        grep -E "^(State|PPid|Threads|SigQ|ShdPnd|SigPnd):" $p/status | tr "\t\n" "  "; echo
        echo "  waits in $(cat $p/task/*/wchan 2>/dev/null | tr "\0" " "), mounts of it: $(grep -c "fuse.sampan" $p/mountinfo)"
        ;; esac; done'
    kubectl -n sampan-system logs "$(plugin_pod "$1")" -c sampan --tail=8
    return 1
}
pids_of() { # POD PROGRAM [ARGS of kubectl]: on its node, where only a kill without warning comes from
    local pod=$1 node
    node=$(kubectl get pod "$pod" -o 'jsonpath={.spec.nodeName}' "${@:3}") || return
    cluster node "${node#node-}" sh -c 'for p in /proc/[0-9]*; do
        case $(readlink $p/exe) in */'"$2"') tr "\0" "\n" <$p/environ | grep -qx HOSTNAME='"$pod"' && echo ${p#/proc/} ;; esac; done; true'
}
kill_in() { # POD PROGRAM [ARGS of kubectl]: -9
    local node pids
    node=$(kubectl get pod "$1" -o 'jsonpath={.spec.nodeName}' "${@:3}") && pids=$(pids_of "$@") && [ -n "$pids" ] || return 1
    # shellcheck disable=SC2086 # they are several
    kill_on "${node#node-}" $pids
}

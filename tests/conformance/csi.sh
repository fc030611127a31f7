# shellcheck shell=bash
# Sourced by `run`: the CSI driver, judged by csi-sanity, which is built through the Go proxy.

sanity_version=v5.6.0
sanity=$cache/bin/csi-sanity-$sanity_version
if [ ! -x "$sanity" ] && command -v go >/dev/null; then
    echo "building csi-sanity $sanity_version (a minute, once) ..."
    GOBIN="$cache/build" GOFLAGS=-trimpath timeout 1500 go install "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity@$sanity_version" \
        >"$cache/csi-sanity.log" 2>&1 && mkdir -p "$cache/bin" && mv "$cache/build/csi-sanity" "$sanity" || tail -3 "$cache/csi-sanity.log"
fi
# Nothing fails, and what is skipped is only what the driver does not claim.
unclaimed='Controller Publish, UnpublishVolume|ControllerExpandVolume|ControllerGetVolumeHealth|ControllerListVolumeHealth|ControllerModifyVolume'
unclaimed+='|ControllerPublishVolume|ControllerUnpublishVolume|GetSnapshot|GroupControllerService|Modify [Vv]olume|NodeGetStorageHealth'
unclaimed+='|SNAPSHOT_ACCESSIBILITY_CONSTRAINTS|Volume Cloning'
sanity_part() { # NAME SPECS-TO-LEAVE-OUT PARAMETERS…
    local name=$1 without=$2 code skipped plugin
    shift 2
    mkdir -p "$T/csi"
    printf '%s\n' "$@" >"$T/csi/parameters.yaml"
    "$(dirname "$SAMPAN")/sampan-csi" --endpoint "unix://$T/csi/csi.sock" --node-id node-a --state "$T/csi/state" --run-dir "$T/csi/run" \
        --cache-dir "$T/csi/cache" 2>"$T/csi/log" &
    plugin=$!
    children+=($plugin)
    for _ in $(seq 200); do [ -S "$T/csi/csi.sock" ] && break; sleep 0.1; done
    "$sanity" -csi.endpoint "unix://$T/csi/csi.sock" -csi.mountdir "$T/csi/mnt" -csi.stagingdir "$T/csi/stage" -ginkgo.no-color -ginkgo.v \
        -csi.testvolumeparameters "$T/csi/parameters.yaml" -csi.testvolumesize 1073741824 \
        ${without:+"-ginkgo.skip=$without"} >"$T/csi/out" 2>&1
    code=$?
    tail -n 4 "$T/csi/out" | grep -a Passed
    skipped=$(grep -a '^  \[SKIPPED\]' "$T/csi/out" | grep -a 'supported' | grep -aEv "($unclaimed) not supported" || true)
    [ -z "$skipped" ] || { echo "$skipped" | sort | uniq -c; code=1; }
    kill "$plugin"
    wait "$plugin"
    grep -q " $T/csi/" /proc/self/mountinfo && { echo "mounts were left"; code=1; }
    result "$name" $code
}
if [ -x "$sanity" ] && [ "$(id -u)" = 0 ]; then
    sanity_part "csi-sanity: volumes of a set that is read" "" "uri: file://$T/src"
    mkdir -p "$T/outputs"
    # What is written to has no versions, so no snapshots.
    sanity_part "csi-sanity: claims that are written to" "[Ss]napshot" "uri: file://$T/outputs" 'writable: "true"'
else
    skipped csi-sanity "no Go compiler, no root, or the build did not work"
fi

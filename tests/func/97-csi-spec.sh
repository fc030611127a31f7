#!/usr/bin/env bash
# Every message, number, type and method in csi.proto is the specification's, and methods that are not served say so to its own clients.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/csi.sh"
export SRC=$T
proto=$SAMPAN_TESTS/../csi/csi.proto
compare() { "$VENV/bin/python" "$SAMPAN_TESTS/lib/csi_proto.py" "$@" 2>&1; }
compare "$proto" || fail "csi.proto is not the published interface"
sed -e 's/string staging_target_path = 3;/string staging_target_path = 13;/' -e 's/bool readonly = 6;/string readonly = 6;/' "$proto" >"$T/other.proto"
compare "$T/other.proto" >"$T/found" && fail "other numbers were not seen"
grep -q 'NodeStageVolumeRequest.staging_target_path = 13' "$T/found" && grep -q 'readonly = 6 (string)' "$T/found" || fail "$(cat "$T/found")"
csi_python <<'PY'
from csi_spec import SERVICES
p = plugin()
served = {"Identity": SERVICES["Identity"], "Node": [m for m in SERVICES["Node"] if m != "NodeGetStorageHealth"],
          "Controller": ["CreateVolume", "DeleteVolume", "ValidateVolumeCapabilities", "ListVolumes", "GetCapacity", "ControllerGetCapabilities",
                         "ControllerGetVolume", "CreateSnapshot", "DeleteSnapshot", "ListSnapshots"]}
for service, methods in SERVICES.items():
    for method in methods:
        try:
            p.call(method)
            code = "OK"
        except Refused as e:
            code = e.code
        expect(f"{service}/{method} is served", code != "UNIMPLEMENTED", method in served[service])
# What is claimed is what is served.
claimed = {c.rpc.type for c in p.call("ControllerGetCapabilities").capabilities}
types = pb.ControllerServiceCapability.RPC.Type
needs = {"PUBLISH_UNPUBLISH_VOLUME": "ControllerPublishVolume", "EXPAND_VOLUME": "ControllerExpandVolume", "MODIFY_VOLUME": "ControllerModifyVolume",
         "CREATE_DELETE_VOLUME": "CreateVolume", "LIST_VOLUMES": "ListVolumes", "GET_CAPACITY": "GetCapacity", "LIST_SNAPSHOTS": "ListSnapshots",
         "CREATE_DELETE_SNAPSHOT": "CreateSnapshot", "GET_VOLUME": "ControllerGetVolume"}
for name, method in needs.items():
    expect(name, types.Value(name) in claimed, method in served["Controller"])
PY

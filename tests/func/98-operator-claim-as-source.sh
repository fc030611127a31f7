#!/usr/bin/env bash
# A claim is a source, whoever made its volume; one that comes, or is bound, after the set is noticed. A claim that has the
# set's own name keeps the set waiting until it has gone.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/operator.sh"
own_world s-runtime-0.s-runtime-service.default
operator_story <<'PY'
CLAIMS, VOLUMES = "/api/v1/namespaces/default/persistentvolumeclaims", "/api/v1/persistentvolumes"
kube = World(ends=False)
kube.nodes(1)
op = operator(kube, "one")
until("a leader", kube.leader)
kube.set("s", 1, source={"persistentVolumeClaim": {"name": "data"}, "path": "train"})
why = lambda kind: kube.condition(f"{SETS}/s", kind).get("reason")
until("no claim", lambda: why("SourceValid") == "ClaimMissing")
kube.make(CLAIMS, "s", "PersistentVolumeClaim", spec={})
kube.make(CLAIMS, "data", "PersistentVolumeClaim", spec={})
until("it is not bound", lambda: why("SourceValid") == "ClaimPending")
kube.make(VOLUMES, "disk", "PersistentVolume", spec={"hostPath": {"path": "/mnt/disk"}, "claimRef": {"namespace": "default", "name": "data"}})
kube.ask("PATCH", f"{CLAIMS}/data", {"spec": {"volumeName": "disk"}})
until("it is read", lambda: why("SourceValid") == "Parsed")
until("the name is taken", lambda: why("VolumeBound") == "NameTaken")
kube.ask("DELETE", f"{CLAIMS}/s")
until("the set is ready", lambda: kube.phase_of(f"{SETS}/s") == "Ready")
expect("where it is", kube.get(f"{VOLUMES}/default.s")["spec"]["csi"]["volumeAttributes"]["uri"], "file:///mnt/disk/train")
op.stop()
PY

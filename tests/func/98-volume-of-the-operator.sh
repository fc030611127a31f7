#!/usr/bin/env bash
# The volumes that the operator makes of sample sets are staged and published by the driver as they are: their attributes, mount
# options and secrets, JuiceFS's names among them.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/operator.sh"
. "$SAMPAN_TESTS/lib/csi.sh"
OPERATOR=$SAMPAN_BUILD/bin/sampan-operator
[ -x "$OPERATOR" ] || skip "build/bin/sampan-operator is not built"
export OPERATOR
make_set --classes 1 --files 5
echo 0123456789abcdef0123456789abcdef >"$T/key"
operator_python <<'PY'
kube = Kube()
kube.make("/api/v1/nodes", "node-a", "Node")
kube.make("/api/v1/namespaces/default/secrets", "keys", "Secret", stringData={"access-key": "A", "secret-key": "S"})
Operator(kube, "one", "--namespace", "default", "--token-key-file", T + "/key", program=os.environ["OPERATOR"])
source = {"uri": "file://" + os.environ["SRC"]}
levels = {"levels": [{"mediumType": "SSD", "path": T + "/tier", "cacheSize": 64}]}
sets = {
    "plain": {"cache": levels},
    "own": {"cache": {**levels, "memory": 134217728}, "csi": {"driver": "sampan", "mountOptions": {"bandwidth": "1Gbit", "direct": True, "refresh": "1m"}}},
    "juicefs": {"csi": {"driver": "juicefs", "juiceFSMountOptions": {"cache-dir": T + "/jfs", "cache-size": 64, "free-space-ratio": 0.05, "buffer-size": 128,
                                                                     "prefetch": 2, "read-only": True}}},
    "keyed": {"source": {**source, "secretRef": {"name": "keys"}}, "cache": levels},
}
for name, spec in sets.items():
    kube.make("/apis/batch.paddlepaddle.org/v1alpha1/namespaces/default/samplesets", name, "SampleSet", "batch.paddlepaddle.org/v1alpha1",
              spec={"source": source, **spec})
made = {name: until(f"the volume of {name}", lambda: kube.get(f"/api/v1/persistentvolumes/default.{name}"))["spec"] for name in sets}
json.dump(made, open(T + "/volumes.json", "w"))
PY
csi_python <<'PY'
p = plugin()
modes = {"ReadOnlyMany": "MULTI_NODE_READER_ONLY", "ReadWriteMany": "MULTI_NODE_MULTI_WRITER"}
for name, spec in json.load(open(T + "/volumes.json")).items():
    csi = spec["csi"]
    expect("driver", csi["driver"], "csi.sampan.io")
    cap = capability(mode=modes[spec["accessModes"][0]], flags=spec.get("mountOptions", []))
    secret = {ref: {"access-key": "A", "secret-key": "S"} for ref in ("nodeStageSecretRef", "nodePublishSecretRef") if ref in csi}
    expect("secrets are named", bool(secret), name == "keyed")
    p.stage(csi["volumeHandle"], cap=cap, secrets=secret.get("nodeStageSecretRef"), **csi["volumeAttributes"])
    target = p.publish(csi["volumeHandle"], "pod", readonly=csi.get("readOnly", False), cap=cap, secrets=secret.get("nodePublishSecretRef"),
                       **csi["volumeAttributes"])
    expect(name, subprocess.run(["diff", "-r", "-x", ".sampan", src, target]).returncode, 0)
    p.unpublish(csi["volumeHandle"], "pod"); p.unstage(csi["volumeHandle"])
expect("its tier was used", os.path.isdir(T + "/tier"), True)
expect("and JuiceFS's", os.path.isdir(T + "/jfs"), True)
PY
nothing_of_csi

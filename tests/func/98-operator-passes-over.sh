#!/usr/bin/env bash
# An object that holds what no document of ours can hold (a NUL in a text, nesting without end) is passed over and told of:
# whoever may make one keeps the operator from nobody else's objects, at its start and later. So is one without a name.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/operator.sh"
operator_python <<'PY'
kube = Kube()
PVC = "/api/v1/namespaces/default/persistentvolumeclaims"
deep = []
for _ in range(200):
    deep = [deep]
def bad(n):
    notes = {"a": 'a "quoted" ]},{ ', "nul": "\0"}
    kube.make(PVC, f"nul{n}", "PersistentVolumeClaim", metadata={"annotations": notes})
    kube.make(JOBS, f"nul{n}", "PaddleJob", "batch.paddlepaddle.org/v1", metadata={"annotations": {"toy/children": "1", **notes}}, spec={})
    kube.make(JOBS, f"deep{n}", "PaddleJob", "batch.paddlepaddle.org/v1", metadata={"annotations": {"toy/children": "1"}}, spec={"deep": deep})
kube.job("b", children=1)
bad(1)
kube.job("z", children=1)
op = Operator(kube, "one")
kube.running("b", "z")
log = op.log()
for kind in ("PaddleJob", "PersistentVolumeClaim"):
    expect(f"{kind} told", f"kind={kind}: an object is passed over: " in log, True)
bad(2)
kube.job("later", children=1)
kube.running("later")
kube.control(say={"path": JOBS, "object": {"metadata": {}, "spec": {}}})
kube.job("named", children=1)
kube.running("named")
expect("nameless told", "kind=PaddleJob: a change is passed over: its object has no name" in op.log(), True)
kube.control(forget=True, cut=True) # lists again
kube.job("last", children=1)
kube.running("last")
expect("of the others", [j for j in ("nul1", "nul2", "deep1", "deep2") if kube.phase(j)], [])
op.stop()
PY

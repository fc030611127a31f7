#!/usr/bin/env bash
# What the API server refuses of a set is told by its status, which is true of all else; and a claim that a namespace
# does not take (its quota) keeps neither the set's servers nor the jobs of other namespaces from being made.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/operator.sh"
own_world shared-runtime-0.shared-runtime-service.default
operator_story <<'PY'
def refused(path):
    kube.control(fail={"status": 403, "n": 10**6, "method": "POST", "path": path})

kube = World(ends=False)
kube.nodes(2)
op = operator(kube, "one")
until("a leader", kube.leader)

refused("/api/v1/namespaces/full/persistentvolumeclaims")
for ns in ("full", "other"):
    kube.paddlejob("train", "shared", workers=1, ns=ns)
kube.set("shared", 1, sharedTo=["*"])
until("the job of another namespace runs", lambda: kube.phase_of(f"{place(V1, 'paddlejobs', 'other')}/train") == "Running")
expect("the other waits", kube.phase_of(f"{place(V1, 'paddlejobs', 'full')}/train"), "Pending")
until("the set says what is refused", lambda: any(reason == "Refused" and "namespaces/full" in why for reason, why in kube.warnings()))

refused("/apis/apps/v1/namespaces/default/statefulsets")
kube.set("alone", 1)
until("the claim is told to be bound", lambda: kube.condition(f"{SETS}/alone", "VolumeBound").get("status") == "True")
until("where the refusal is told", lambda: "kubectl describe sampleset alone" in kube.condition(f"{SETS}/alone", "ServersReady").get("message", ""))
kube.control(mend=True)
until("it goes on", lambda: kube.get("/apis/apps/v1/namespaces/default/statefulsets/alone-runtime"))
until("the claim of the full namespace is made", lambda: kube.phase_of(f"{place(V1, 'paddlejobs', 'full')}/train") == "Running")
PY

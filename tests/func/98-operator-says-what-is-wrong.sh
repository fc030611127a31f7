#!/usr/bin/env bash
# What users and machines do wrong is told where they look, with a cure: by a condition and a Warning event of the same
# reason; and what has nothing to do with it goes on. (Storms of 409 and 429: 98-operator-faults; two operators:
# 98-operator-leads, 98-operator-leader-dies-anywhere; the end of jobs in all other phases: 98-operator-deleted-in-each-phase;
# what the API server itself refuses: tests/kube/crd.sh.) SLOW=1: the API server is away for a minute.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/operator.sh"
long=$(printf 'n%.0s' {1..63})
own_world {good,wide,picky}-runtime-{0,1}.{good,wide,picky}-runtime-service.default
export long
operator_story <<'PY'
KEYS = "/api/v1/namespaces/default/secrets"
kube = World(ends=False)
kube.nodes(2)
op = operator(kube, "one")
until("a leader", kube.leader)
kube.make(KEYS, "odd", "Secret", stringData={"user": "a", "password": "b"})
kube.set("good", 1)
until("the good set is ready", lambda: kube.phase_of(f"{SETS}/good") == "Ready")

def told(path, kind, reason, *words, status="False"):
    """The condition, and the event beside it, say what is wrong and what to do."""
    until(lambda: f"{reason} of {path}: {kube.condition(path, kind)}", lambda: kube.condition(path, kind).get("reason") == reason)
    got = kube.condition(path, kind)
    expect(f"{path}: {kind}", got["status"], status)
    for word in words:
        expect(f"{path}: '{word}' in '{got['message']}'", word in got["message"], True)
    name = path.rsplit("/", 1)[1]
    until(lambda: f"a warning {reason} about {name}: {kube.warnings()}",
          lambda: [e for e in kube.everything() if e["kind"] == "Event" and e["type"] == "Warning" and e["reason"] == reason
                   and e["involvedObject"]["name"] == name and e["message"]])

def bad_set(name, kind, reason, *words, partitions=1, **spec):
    kube.set(name, partitions, **spec)
    told(f"{SETS}/{name}", kind, reason, *words)

# --- sets
s3 = {"uri": "s3://bucket/flowers"}
bad_set("no-secret", "SecretUsable", "SecretMissing", "default/nobody", "create it", source=s3, secretRef={"name": "nobody"})
bad_set("odd-secret", "SecretUsable", "WrongKeyNames", "holds password, user", "access-key and secret-key", source=s3, secretRef={"name": "odd"})
bad_set("no-uri", "SourceValid", "InvalidURI", "bucket/flowers", "want SCHEME://", source={"uri": "bucket/flowers"})
bad_set("no-scheme", "SourceValid", "InvalidURI", "ftp", "want one of s3", source={"uri": "ftp://bucket/flowers"})
bad_set("none", "SpecValid", "InvalidSpec", "partitions", partitions=0)
bad_set("relative", "SpecValid", "InvalidSpec", "cache/here", "want /FOLDER", cache={"levels": [{"mediumType": "SSD", "path": "cache/here"}]})
bad_set("newer", "SpecValid", "InvalidSpec", "reclaim", cache={"reclaim": "Archive"})
bad_set("wide", "NodesFound", "TooFewNodes", "3 partitions", "add nodes, or lower spec.partitions", partitions=3)
wanted = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast"]}]}
bad_set("picky", "NodesFound", "NoNodeFits", "none of 2 nodes", "label nodes",
        nodeAffinity={"required": {"nodeSelectorTerms": [wanted]}})

# An event that cannot be written is told again with the round that failed with it.
for method, path in (("POST", "/api/v1/namespaces/default/events"), ("PATCH", f"{SETS}/late/status")):
    kube.control(fail={"status": 500, "n": 1, "method": method, "path": path})
bad_set("late", "SourceValid", "InvalidURI", "ftp", source={"uri": "ftp://bucket/late"})

# --- jobs
kube.paddlejob("no-set", "nowhere")
told(f"{JOBS}/no-set", "SamplesReady", "NoSampleSet", "nowhere", "create it")
kube.paddlejob("no-workers", workers=0)
told(f"{JOBS}/no-workers", "Valid", "NoPods", "spec.worker.replicas")
kube.paddlejob("a-newer-one", intranet="Quantum")
told(f"{JOBS}/a-newer-one", "Valid", "InvalidSpec", "intranet")
kube.warmup("no-set", "nowhere")
told(f"{WORK}/no-set", "Waiting", "SampleSetMissing", "nowhere", "create it", status="True")
kube.training("bounds", trainer={"entrypoint": "train", "min-instance": 3, "max-instance": 2})
told(f"{TRAIN}/bounds", "Valid", "InvalidSpec", "max-instance is below min-instance")
kube.paddlejob("a-node", "good", workers=1)
until("it runs", lambda: kube.phase_of(f"{JOBS}/a-node") == "Running")
POD = "/api/v1/namespaces/default/pods/a-node-worker-0"
lost = [{"type": "Ready", "status": "Unknown"}]
kube.ask("PATCH", POD + "/status", {"status": {"conditions": lost}})
told(f"{JOBS}/a-node", "PodsReady", "NodeLost", "does not answer", "kubectl delete pod")
kube.ask("PATCH", POD + "/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
until("it runs again", lambda: kube.phase_of(f"{JOBS}/a-node") == "Running")

# --- a set that is used stays, and names who uses it
kube.ask("DELETE", f"{SETS}/good")
told(f"{SETS}/good", "Deletion", "InUse", "default/a-node", "wait, or delete them")
expect("still there", kube.get(f"{SETS}/good") is not None, True)

# --- names of 63 characters
long = os.environ["long"]
kube.paddlejob(long, workers=2)
until("the long one runs", lambda: kube.phase_of(f"{JOBS}/{long}") == "Running")

# --- in the same words whether the watch brought an object or the answer to what was written of it (a matter of chance)
expect("words that tell who brought it", [w for w in kube.warnings() if w[1].startswith("answer")], [])

# --- jobs that are deleted leave nothing
kube.paddlejob("suspended", suspend=True)
kube.paddlejob("unplaced", worker=role(1), workers=1)
phases = {"no-set": "Pending", "suspended": "Suspended", "a-node": "Running", long: "Running", "unplaced": "Running"}
until(lambda: f"phases: {[kube.phase_of(f'{JOBS}/{j}') for j in phases]}", lambda: all(kube.phase_of(f"{JOBS}/{j}") == p for j, p in phases.items()))
kube.ask("PATCH", "/api/v1/namespaces/default/pods/unplaced-worker-0/status", {"status": {
    "phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}]}})
told_failed = lambda: kube.phase_of(f"{JOBS}/unplaced") == "Failed"
until("it has failed", told_failed)
expect("why", "ended with 3 (Error)" in kube.condition(f"{JOBS}/unplaced", "Failed")["message"], True)
for job in phases:
    kube.ask("DELETE", f"{JOBS}/{job}")

# --- the API server is away: then all goes on where it was
away = 60 if os.environ.get("SLOW") else 3
kube.control(down=away)
until("nothing of the jobs is left", lambda: not [k for k in kube.picture() if k.split("/")[-1].split("-worker")[0] in phases and "SampleJob" not in k],
      away + 60)
until("the set that was used is gone", lambda: kube.get(f"{SETS}/good") is None)
op.stop()
PY

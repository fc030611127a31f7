#!/usr/bin/env bash
# Whatever phase a SampleSet, SampleJob, PaddleJob or TrainingJob is in, deleted it leaves nothing: no child, volume, label,
# finalizer or job of servers, nobody who names it, and nobody who writes on. The other jobs of its set go on. That holds
# while the operator is there, and for what is deleted while none is. And its role grants what it asks for in all this, no more.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/operator.sh"
for set in good ss-{unbound,bound,mount,syncing,syncfailed,partialready,ready}; do
    hosts+=("$set-runtime-"{0,1,2}".$set-runtime-service.default")
done
own_world "${hosts[@]}"
operator_story <<'PY'
import yaml

# --- what the phases need beside the cluster: an etcd that takes all, and nodes that elastic workers alone want
kube = World(ends=False)
kube.nodes(2)
op = operator(kube, "one", "--etcd", f"http://127.0.0.1:{etcd()}",
              "--lease-duration", "30s", "--lease-renew-by", "20s") # nobody else wants it
until("a leader", kube.leader)
OTHER = place(V1, "paddlejobs", "other")
OUT = {"output": {"mountPath": "/out", "sampleSetRef": {"name": "good", "namespace": "default"}}}

def at_servers(of, **states):
    kube.control(states={f"{of}-runtime-service.default": states})

def pods(name, ns="other", worker="worker"):
    return [o["metadata"]["name"] for o in kube.get(f"/api/v1/namespaces/{ns}/pods")["items"] if o["metadata"]["name"].startswith(f"{name}-{worker}-")]

def pod_status(name, ns="other", **status):
    expect(f"status of {name}", kube.ask("PATCH", f"/api/v1/namespaces/{ns}/pods/{name}/status", {"status": status})[0], 200)

def come(path, phase):
    until(lambda: f"{path} is {phase}, not {kube.phase_of(path)}", lambda: (kube.phase_of(path) or "") == phase)

# --- PaddleJobs: in another namespace than their set, with a volume for their results
def pj(name, phase="Running", **spec):
    kube.paddlejob(name, "good", ns="other", **OUT, **spec)
    come(f"{OTHER}/{name}", phase)

def pj_pending(name):
    pj(name, "Pending", worker={"replicas": 2, "template": {"spec": {"containers": [{"name": "main", "image": "t:1"}], **only_on("nowhere")}}})
    until("its pods", lambda: len(pods(name)) == 2)

def pj_waiting(name):
    kube.paddlejob(name, "nowhere", ns="other", **OUT)
    come(f"{OTHER}/{name}", "Pending")

def pj_starting(name):
    pj(name)
    pod_status(f"{name}-worker-0", containerStatuses=[{"name": "main", "ready": False, "state": {"waiting": {}}}])

def fail_worker(name):
    later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600)) # what follows it does not follow soon
    pod_status(f"{name}-worker-1", phase="Failed", containerStatuses=[
        {"name": "main", "ready": False, "state": {"terminated": {"exitCode": 3, "reason": "Error", "finishedAt": later}}}])

def pj_restarting(name):
    pj(name, backoffLimit=3)
    fail_worker(name)

def pj_failed(name):
    pj(name, cleanPodPolicy="Never")
    fail_worker(name)

def only_on(pool):
    terms = [{"matchExpressions": [{"key": "pool", "operator": "In", "values": [pool]}]}]
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}

def pj_scaling(name):
    kube.make("/api/v1/nodes", "spare", "Node", metadata={"labels": {"pool": "spare"}})
    template = {"spec": {"containers": [{"name": "main", "image": "t:1"}], **only_on("spare")}}
    kube.paddlejob(name, ns="other", elastic=1, worker={"replicas": 2, "requests": 1, "limits": 4, "template": template})
    come(f"{OTHER}/{name}", "Running")
    kube.ask("DELETE", "/api/v1/nodes/spare")
    kube.ask("PATCH", f"{OTHER}/{name}", {"spec": {"worker": {"replicas": 3}}})
    until("a third pod", lambda: len(pods(name)) == 3)

def pj_suspended(name):
    pj(name)
    kube.ask("PATCH", f"{OTHER}/{name}", {"spec": {"suspend": True}})
    until("its pods go", lambda: not pods(name))

def pj_completed(name):
    pj(name, cleanPodPolicy="Never")
    for pod in pods(name):
        pod_status(pod, phase="Succeeded", containerStatuses=[{"name": "main", "ready": False, "state": {"terminated": {"exitCode": 0}}}])

# --- SampleJobs, of the same set; the servers keep them where they are
def sj(name, type="warmup", of="good", **spec):
    kube.make(WORK, name, "SampleJob", ALPHA, spec={"type": type, "sampleSetRef": {"name": of}, **spec})

def sj_in(state):
    def begin(name):
        at_servers("good", warmup=state)
        sj(name)
        until("the servers have it", lambda: server_job(name))
    return begin

def server_job(name):
    status = (kube.get(f"{WORK}/{name}") or {}).get("status") or {}
    return kube.control()["jobs"].get(f"good-runtime-service.default/{status.get('jobName')}")

def sj_cancelled(name):
    sj_in("running")(name)
    come(f"{WORK}/{name}", "Running")
    kube.ask("PATCH", f"{WORK}/{name}", {"spec": {"terminate": True}})

def sj_scheduled(name):
    """By the clock, with a run that is under way."""
    at_servers("good", warmup="running")
    sj(name, schedule={"cron": "0 0 1 1 *", "concurrencyPolicy": "Forbid"})
    come(f"{WORK}/{name}", "Scheduled")
    kube.ask("PATCH", f"{WORK}/{name}/status", {"status": {"lastScheduleTime": "2020-06-01T00:00:00Z"}})
    kube.ask("PATCH", f"{WORK}/{name}", {"metadata": {"annotations": {"look": "again"}}})
    until("its run", lambda: [o for o in kube.get(WORK)["items"] if o["metadata"]["name"].startswith(f"{name}-") and
                              o.get("status", {}).get("phase") == "Running"])

def sj_suspended(name):
    sj(name, schedule={"cron": "* * * * *", "suspend": True})

# --- SampleSets: each has servers of its own
def ss(name, partitions=2, scan="succeeded", **spec):
    at_servers(name, scan=scan)
    kube.set(name, partitions, **spec)

def ss_unbound(name):
    ss(name, source={"uri": "s3://bucket/x"}, secretRef={"name": "nobody"})
    until("it says so", lambda: kube.condition(f"{SETS}/{name}", "SecretUsable").get("reason") == "SecretMissing")

def ss_bound(name):
    term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["nowhere"]}]}
    ss(name, nodeAffinity={"required": {"nodeSelectorTerms": [term]}})

def ss_mount(name):
    """A server is ready, and the first one not."""
    ss(name, scan="running")
    come(f"{SETS}/{name}", "Syncing")
    pod_status(f"{name}-runtime-0", ns="default", conditions=[{"type": "Ready", "status": "False"}])

# --- TrainingJobs
def tj(name, phase="Running", **spec):
    kube.training(name, pserver={"entrypoint": "serve", "min-instance": 1}, **spec)
    come(f"{TRAIN}/{name}", phase)

def batch_job(name, **status):
    expect(f"status of the Job of {name}", kube.ask("PATCH", f"/apis/batch/v1/namespaces/default/jobs/{name}-trainer/status", {"status": status})[0], 200)

def tj_scaling(name):
    tj(name)
    batch_job(name, ready=1)

def tj_succeed(name):
    tj(name)
    batch_job(name, succeeded=2, conditions=[{"type": "Complete", "status": "True"}])

def tj_failed(name):
    tj(name)
    batch_job(name, failed=1)

def tj_creating(name):
    """Its Job is not to be had; the last of all, for so is no other."""
    kube.control(fail={"status": 503, "n": 1000000, "method": "POST", "path": "/apis/batch/v1/namespaces/default/jobs"})
    tj(name, "Creating")
    until("its server", lambda: f"{name}-pserver" in kube.names("/apis/apps/v1/namespaces/default/replicasets"))

def tj_timeout(name):
    tj(name)
    kube.ask("PATCH", f"{TRAIN}/{name}", {"metadata": {"annotations": {"walltime": "1"}}})

KINDS = {"pj": OTHER, "sj": WORK, "ss": SETS, "tj": TRAIN}
CASES = { # the phase in which each is deleted; no name is the beginning of another
    "pj-pending": ("Pending", pj_pending), "pj-waiting": ("Pending", pj_waiting), "pj-starting": ("Starting", pj_starting),
    "pj-running": ("Running", pj), "pj-restarting": ("Restarting", pj_restarting), "pj-scaling": ("Scaling", pj_scaling),
    "pj-suspended": ("Suspended", pj_suspended), "pj-completed": ("Completed", pj_completed), "pj-failed": ("Failed", pj_failed),
    "sj-waiting": ("Waiting", lambda name: sj(name, of="nowhere")), "sj-pending": ("Pending", sj_in("pending")),
    "sj-running": ("Running", sj_in("running")), "sj-scheduled": ("Scheduled", sj_scheduled), "sj-suspended": ("Suspended", sj_suspended),
    "sj-succeeded": ("Succeeded", sj_in("succeeded")), "sj-failed": ("Failed", sj_in("failed")), "sj-cancelled": ("Cancelled", sj_cancelled),
    "ss-unbound": ("", ss_unbound), "ss-bound": ("Bound", ss_bound), "ss-mount": ("Mount", ss_mount),
    "ss-syncing": ("Syncing", lambda name: ss(name, scan="running")), "ss-syncfailed": ("SyncFailed", lambda name: ss(name, scan="failed")),
    "ss-partialready": ("PartialReady", lambda name: ss(name, 3)), "ss-ready": ("Ready", ss),
    "tj-running": ("Running", tj), "tj-scaling": ("Scaling", tj_scaling), "tj-succeed": ("Succeed", tj_succeed),
    "tj-failed": ("Failed", tj_failed), "tj-timeout": ("Timeout", tj_timeout), "tj-creating": ("Creating", tj_creating),
}

def path(name):
    return f"{KINDS[name[:2]]}/{name}"

def begin_all():
    for name, (phase, begin) in CASES.items():
        begin(name)
        come(path(name), phase)
        print(f"{name}: {phase or 'no phase yet'}", flush=True)
    for name, (phase, _) in CASES.items():
        expect(f"{name}: before", kube.phase_of(path(name)) or "", phase)

def traces():
    """Who is one of them, is of one, or speaks of one?"""
    time.sleep(0.1)
    objects = [(o, json.dumps(o)) for o in kube.everything() if o["kind"] not in ("Event", "Lease")]
    return {name: found for name in CASES
            if (found := [f"{o['kind']} {o['metadata'].get('namespace', '')}/{o['metadata']['name']}" for o, text in objects if name in text])}

def unfinished():
    """What servers still do, for jobs of ours that have gone."""
    return [k for k, j in kube.control()["jobs"].items() if j["type"] == "warmup" and j["state"] in ("pending", "running")]

# --- those that nothing may happen to
kube.set("good", 2, sharedTo=["other"])
come(f"{SETS}/good", "Ready")
at_servers("good", warmup="running")
kube.paddlejob("bystander", "good", ns="other", **OUT)
sj("helper")
come(f"{OTHER}/bystander", "Running")
come(f"{WORK}/helper", "Running")
theirs = unfinished()
expect("the helper's job", len(theirs), 1)
def bystanders():
    picture = kube.picture()
    return {k: v for k, v in picture.items() if ("bystander" in k or "helper" in k or "good" in k) and not k.startswith("Node ")}
until("rest", lambda: kube.still(1))
before = bystanders()

# --- while the operator is there, and while none is

def delete_all(what):
    for name in CASES:
        expect(f"{name}: deleted", kube.ask("DELETE", path(name))[0], 200)
    if what == "away":
        op.start()
    until(lambda: f"{what}: nothing of {traces()} is left", lambda: not traces())
    expect(f"{what}: jobs of servers", unfinished(), theirs)
    until("rest", lambda: kube.still(3))
    expect(f"{what}: keys that fail", op.metric("sampan_operator_queue_failing"), 0)
    expect(f"{what}: the others", differences(before, bystanders()), [])

begin_all()
delete_all("there")
kube.control(mend=True)
begin_all() # under the same names
op.stop()
delete_all("away")
op.stop()

# --- all that it asked for, its role grants; and the role grants nothing that nobody asks for
def asked():
    for _, _, method, target, _ in kube.lines(who="one"):
        words = target.partition("?")[0].strip("/").split("/")
        group, rest = ("", words[2:]) if words[0] == "api" else (words[1], words[3:])
        rest = rest[2:] if rest[0] == "namespaces" else rest
        yield group, "/".join(rest[:1] + rest[2:]), {"GET": "read", "POST": "create", "PATCH": "patch", "DELETE": "delete"}[method]

def granted():
    for role in yaml.safe_load_all(open(os.environ["SAMPAN_TESTS"] + "/../deploy/operator/rbac.yaml")):
        for rule in role.get("rules", []):
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for verb in rule["verbs"]:
                        yield group, resource, "read" if verb in ("get", "list", "watch") else verb

BATCH = "batch.paddlepaddle.org"
NO_OCCASION = {
    *{(g, r, "patch") for g, r in (("", "configmaps"), ("", "persistentvolumeclaims"), ("", "persistentvolumes"), ("", "secrets"),
                                   ("", "services"), ("apps", "replicasets"), ("apps", "statefulsets"), ("batch", "jobs"))}, # children that are wanted otherwise
    ("", "events", "read"), ("", "events", "patch"), # the same again, minutes later
    (BATCH, "paddlejobs", "delete"), (BATCH, "samplejobs", "delete"), # ttlSecondsAfterFinished, runs that are forgotten
    *{(BATCH, f"{r}/finalizers", "update") for r in ("samplesets", "samplejobs", "paddlejobs")}, ("paddlepaddle.org", "trainingjobs/finalizers", "update"),
    *{("scheduling.volcano.sh", "podgroups", v) for v in ("read", "create", "patch", "delete")},
}
expect("rights that are missing", sorted(set(asked()) - set(granted())), [])
expect("rights that nobody needs", sorted(set(granted()) - set(asked()) - NO_OCCASION), [])
PY

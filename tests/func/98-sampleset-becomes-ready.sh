#!/usr/bin/env bash
# A SampleSet over a real runtime server becomes Ready, a SampleJob warms it, and when both are deleted nothing of
# them is left. Kubernetes is played by an API server in memory and by this script, which binds the claim and starts
# the server where its pod would see the mount.
. "$SAMPAN_TESTS/lib/common.sh"
need_root "names of pods are given addresses"
need_mount
need_command ip
own_namespace -n
O=$SAMPAN_BUILD/bin/sampan-operator
[ -x "$O" ] || skip "build/bin/sampan-operator is not built"
ip link set lo up
make_set --classes 3 --files 10
mount_set "file://$SRC"
mkdir -p "$T/pod" "$T/serve" "$T/log"
mount --bind "$MNT" "$T/pod"
on_exit "umount -l '$T/pod'"
sed '/runtime/d' /etc/hosts >"$T/hosts"
echo "127.0.0.1 set-runtime-0.set-runtime-service.default" >>"$T/hosts"
mount --bind "$T/hosts" /etc/hosts
echo 0123456789abcdef0123456789abcdef >"$T/key"
export T O S SRC
timeout 900 "$PYTHON" - <<'PY'
import atexit, base64, http.client, json, os, signal, subprocess, sys, time

T, NS = os.environ["T"], "/namespaces/default"
BATCH = "/apis/batch.paddlepaddle.org/v1alpha1" + NS
SETS, JOBS = BATCH + "/samplesets", BATCH + "/samplejobs"
CORE, APPS = "/api/v1" + NS, "/apis/apps/v1" + NS
started = []


@atexit.register
def end_all():
    for p in started:
        p.kill()
        p.wait()


def start(command, log):
    started.append(subprocess.Popen(command, stdout=open(f"{T}/log/{log}", "a"), stderr=subprocess.STDOUT))
    return started[-1]


def until(what, fn, seconds=120):
    give_up = time.monotonic() + 10 * seconds
    while not (got := fn()):
        if time.monotonic() > give_up:
            print(json.dumps(get(SETS + "/set"), indent=1))
            raise SystemExit(f"never came: {what}")
        time.sleep(0.05)
    return got


def expect(what, got, want):
    if got != want:
        raise SystemExit(f"{what}: got {got!r}, want {want!r}")


def ask(method, path, body=None):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    c.request(method, path, json.dumps(body) if body else None,
              {"Authorization": "Bearer test", "Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"})
    r = c.getresponse()
    text = r.read()
    c.close()
    return r.status, json.loads(text)


def get(path):
    status, obj = ask("GET", path)
    return obj if status == 200 else None


def make(path, kind, name, api="v1", **members):
    meta = {"name": name, **members.pop("metadata", {})}
    expect(f"make {kind}", ask("POST", path, {"apiVersion": api, "kind": kind, "metadata": meta, **members})[0], 201)


def status(path):
    return (get(path) or {}).get("status") or {}


ready = f"{T}/kube.port"
start([sys.executable, os.environ["SAMPAN_TESTS"] + "/servers/kube.py", "--ready", ready, "--log", f"{T}/log/kube"], "kube.err")
port = 0
until("the API server", lambda: os.path.exists(ready))
port = int(open(ready).read())
with open(f"{T}/kubeconfig", "w") as f:
    json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "t",
               "contexts": [{"name": "t", "context": {"cluster": "t", "user": "t"}}],
               "clusters": [{"name": "t", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
               "users": [{"name": "t", "user": {"token": "test"}}]}, f)
operator = start([os.environ["O"], "--kubeconfig", f"{T}/kubeconfig", "--namespace", "default", "--token-key-file", f"{T}/key"], "operator")
make("/api/v1/nodes", "Node", "node-1")
make(SETS, "SampleSet", "set", "batch.paddlepaddle.org/v1alpha1", spec={"source": {"uri": "file://" + os.environ["SRC"]}})

# What Kubernetes does.
claim, volume_at = f"{CORE}/persistentvolumeclaims/set", "/api/v1/persistentvolumes/default.set"
volume = until("the volume", lambda: get(volume_at))["spec"]
expect("a claim before its volume is known", get(claim), None)
ask("PATCH", volume_at + "/status", {"status": {"phase": "Available"}})
until("the claim", lambda: get(claim))
expect("uri of the volume", volume["csi"]["volumeAttributes"]["uri"], "file://" + os.environ["SRC"])
expect("claim of the volume", volume["claimRef"]["name"], "set")
ask("PATCH", claim + "/status", {"status": {"phase": "Bound"}})
until("Bound", lambda: status(SETS + "/set").get("phase") == "Bound")
template = until("the servers", lambda: get(f"{APPS}/statefulsets/set-runtime"))["spec"]["template"]
token = base64.b64decode(get(f"{CORE}/secrets/set-runtime-token")["data"]["token"]).decode()
with open(f"{T}/token", "w") as f:
    f.write(token + "\n")
args = [a.replace("$(POD_IP)", "127.0.0.1") for a in template["spec"]["containers"][0]["args"] if not a.startswith(("--mount", "--token-file", "--state"))]
start([os.environ["S"], *args, f"--mount={T}/pod", f"--token-file={T}/token", f"--state={T}/serve"], "serve")


def serves():
    try:
        c = http.client.HTTPConnection("127.0.0.1", 7716, timeout=300)
        c.request("GET", "/readyz")
        return c.getresponse().status == 200
    except OSError:
        return False


until("the server finds the mount's owner", serves)
make(f"{CORE}/pods", "Pod", "set-runtime-0", metadata=template["metadata"], spec={"nodeName": "node-1"},
     status={"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})

# Ready, with the columns of `kubectl get sampleset`.
until("Ready", lambda: status(SETS + "/set").get("phase") == "Ready")
s = status(SETS + "/set")
expect("total files", s["cacheStatus"]["totalFiles"], "30")
expect("cached", s["cacheStatus"]["cachedSize"], "0 B")
expect("servers", s["runtimeStatus"]["runtimeReady"], "1/1")
expect("version", len(s["version"]), 64)
expect("label", get("/api/v1/nodes/node-1")["metadata"]["labels"]["sampan.io/default.set"], "set-runtime-0")

make(JOBS, "SampleJob", "warm", "batch.paddlepaddle.org/v1alpha1", spec={"type": "warmup", "sampleSetRef": {"name": "set"}})
until("the warmup", lambda: status(JOBS + "/warm").get("phase") == "Succeeded")
expect("progress", status(JOBS + "/warm")["progress"], "100.0% (30/30)")
until("the figures", lambda: status(SETS + "/set")["cacheStatus"]["cachedSize"] == s["cacheStatus"]["totalSize"])
expect("warnings", [e["message"] for e in get(f"{CORE}/events")["items"] if e["type"] == "Warning"], [])

# A version that is pinned stays while the source changes: a scan waits until it may replace it.
def condition(path, kind):
    return next((c for c in status(path).get("conditions", []) if c["type"] == kind), {})


def pin(version):
    expect("pin", ask("PATCH", SETS + "/set", {"spec": {"version": version}})[0], 200)


pin(s["version"])
until("it is pinned", lambda: condition(SETS + "/set", "VersionServed").get("reason") == "Pinned")
with open(os.environ["SRC"] + "/class-000/new.bin", "w") as f:
    f.write("a new sample")
make(JOBS, "SampleJob", "look", "batch.paddlepaddle.org/v1alpha1", spec={"type": "scan", "sampleSetRef": {"name": "set"}})
until("the scan waits", lambda: condition(JOBS + "/look", "Waiting").get("reason") == "VersionPinned")
expect("what to do", "remove its spec.version" in condition(JOBS + "/look", "Waiting")["message"], True)
expect("version", status(SETS + "/set")["version"], s["version"])
pin("0" * 64)
until("one is wanted that nobody has", lambda: condition(SETS + "/set", "VersionServed").get("reason") == "NotKept")
expect("those that there are", s["version"] in condition(SETS + "/set", "VersionServed")["message"], True)
expect("versions", status(SETS + "/set")["versions"], [s["version"]])
expect("warnings", sorted(e["reason"] for e in get(f"{CORE}/events")["items"] if e["type"] == "Warning"), ["NotKept", "VersionPinned"])
pin(None)
until("the scan", lambda: status(JOBS + "/look").get("phase") == "Succeeded")
until("the new version", lambda: len(status(SETS + "/set")["version"]) == 64 and status(SETS + "/set")["version"] != s["version"])
expect("a sample more", status(SETS + "/set")["cacheStatus"]["totalFiles"], "31")
until("nothing is pinned", lambda: not condition(SETS + "/set", "VersionServed"))

# Back to the version before, and forth again: the mount shows it.
new = status(SETS + "/set")["version"]
expect("versions", status(SETS + "/set")["versions"], [new, s["version"]])
expect("the new sample", os.path.exists(f"{T}/pod/class-000/new.bin"), True)
pin(s["version"])
until("it went back", lambda: condition(SETS + "/set", "VersionServed").get("reason") == "Pinned")
expect("version", status(SETS + "/set")["version"], s["version"])
expect("the new sample", os.path.exists(f"{T}/pod/class-000/new.bin"), False)
until("the figures", lambda: status(SETS + "/set")["cacheStatus"]["totalFiles"] == "30")
pin(None)
until("it went on", lambda: status(SETS + "/set")["version"] == new)
expect("the new sample", os.path.exists(f"{T}/pod/class-000/new.bin"), True)

# The end.
ask("DELETE", SETS + "/set")
until("the servers are ended", lambda: not get(f"{APPS}/statefulsets/set-runtime"))
ask("DELETE", f"{CORE}/pods/set-runtime-0")
until("the set is gone", lambda: not get(SETS + "/set"))
expect("volumes", get("/api/v1/persistentvolumes")["items"], [])
expect("claims", get(f"{CORE}/persistentvolumeclaims")["items"], [])
expect("labels", get("/api/v1/nodes/node-1")["metadata"].get("labels") or {}, {})
operator.send_signal(signal.SIGTERM)
expect("the operator ends", operator.wait(timeout=300), 0)
expect("tokens in logs", [f for f in os.listdir(f"{T}/log") if f != "kube" and token in open(f"{T}/log/{f}", errors="replace").read()], [])
PY
expect "kept on the node" "$(sampan status --json "$MNT" | field cache.samples)" 0
umount -l "$T/pod"
unmount

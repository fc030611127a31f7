"""A whole story for the operator: nodes, a set and the jobs that use it, played by tests/servers/kubeplay.py."""
import base64
import http.server
import json
import re
import threading

from operator_lib import *

ALPHA, V1, PADDLE = "batch.paddlepaddle.org/v1alpha1", "batch.paddlepaddle.org/v1", "paddlepaddle.org/v1"
LEASE_TIMES = ["--lease-duration", "1s", "--lease-renew-by", "700ms", "--lease-retry", "100ms"]


def place(api, plural, ns="default"):
    return f"/apis/{api}/namespaces/{ns}/{plural}"


SETS, WORK = place(ALPHA, "samplesets"), place(ALPHA, "samplejobs")
TRAIN = place(PADDLE, "trainingjobs")


def runtime_hosts(ns, name, partitions):
    return [f"{name}-runtime-{k}.{name}-runtime-service.{ns}" for k in range(partitions)]


def role(replicas):
    return {"replicas": replicas, "template": {"spec": {"containers": [{"name": "main", "image": "train:1"}]}}}


class World(Kube):
    """Everything is asked for at once; settle() and end() wait for what must come of it."""

    def __init__(self, *options, ends=True):
        super().__init__("--play", *(["--ends"] if ends else []), *options)

    def nodes(self, n):
        for k in range(n):
            self.make("/api/v1/nodes", f"node-{k}", "Node", metadata={"labels": {"kubernetes.io/hostname": f"node-{k}"}})

    def set(self, name, partitions, ns="default", **spec):
        self.make(place(ALPHA, "samplesets", ns), name, "SampleSet", ALPHA,
                  spec={"partitions": partitions, "source": {"uri": "file:///samples"}, **spec})

    def warmup(self, name, of):
        self.make(WORK, name, "SampleJob", ALPHA, spec={"type": "warmup", "sampleSetRef": {"name": of}})

    def paddlejob(self, name, of=None, workers=2, ps=0, ns="default", **spec):
        roles = {"worker": role(workers), **({"ps": role(ps)} if ps else {})}
        ref = {"sampleSetRef": {"name": of, "namespace": "default", "mountPath": "/data"}} if of else {}
        self.make(place(V1, "paddlejobs", ns), name, "PaddleJob", V1, spec={**roles, **ref, **spec})

    def training(self, name, **spec):
        trainer = {"entrypoint": "train", "min-instance": 2, "max-instance": 3}
        self.make(TRAIN, name, "TrainingJob", PADDLE, spec={"image": "train:1", "trainer": trainer, **spec})

    def phase_of(self, path):
        return ((self.get(path) or {}).get("status") or {}).get("phase")

    def condition(self, path, kind):
        conditions = ((self.get(path) or {}).get("status") or {}).get("conditions") or []
        return next((c for c in conditions if c["type"] == kind), {})

    def still(self, seconds):
        """Does nobody write for so long? Leases are not counted."""
        before = self.control()["writes"]
        time.sleep(seconds)
        return self.control()["writes"] == before

    def everything(self):
        return self.control(dump=True)["objects"]

    def picture(self):
        """All that is there, without times and versions: what two courses of a story must have in common."""
        out = {}
        for obj in self.everything():
            if obj["kind"] in ("Event", "Lease"):
                continue
            meta = obj["metadata"]
            for field in ("resourceVersion", "managedFields", "generation"):
                meta.pop(field, None)
            key = f"{obj['kind']} {meta.get('namespace', '')}/{meta['name']}"
            out[key] = timeless(obj)
        return out

    def warnings(self):
        return sorted({(o["reason"], o["message"]) for o in self.everything() if o["kind"] == "Event" and o["type"] == "Warning"})

    def made(self):
        """How often each object was made by operators: {"POST path name": n}."""
        out = {}
        for row in self.lines("POST"):
            if row[0] == "201" and "/events" not in row[3] and "/leases" not in row[3]:
                key = f"{row[3]} {json.loads(row[4])['metadata']['name']}"
                out[key] = out.get(key, 0) + 1
        return out


def timeless(value):
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in sorted(value.items()) if k != "observedGeneration"}
    if isinstance(value, list):
        return [timeless(v) for v in value]
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", value):
        return "TIME"
    return value


def differences(a, b, at=""):
    """Lines that say where two pictures differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        return [d for k in sorted({*a, *b}) for d in differences(a.get(k), b.get(k), f"{at}/{k}")]
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return [d for i, (x, y) in enumerate(zip(a, b)) for d in differences(x, y, f"{at}/{i}")]
    return [] if a == b else [f"{at}: {json.dumps(a)[:300]} / {json.dumps(b)[:300]}"]


def etcd(status=200, asked=None, says=b"{}"):
    """A port where transactions are answered so; `asked` gets (status, first key) of each. Another path is redirected."""
    class Etcd(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if asked is not None:
                key = next(iter(body["success"][0].values()))["key"]
                asked.append((status, base64.b64decode(key).decode()))
            self.send_response(status if self.path == "/v3/kv/txn" else 307)
            self.send_header("Content-Length", str(len(says)))
            self.end_headers()
            self.wfile.write(says)
        def log_message(self, *_):
            pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Etcd)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def operator(kube, name, *options):
    """The program itself, with its four controllers; "default" is its namespace."""
    return Operator(kube, name, "--namespace", "default", "--token-key-file", f"{T}/key", *LEASE_TIMES, *options,
                    program=os.environ["OPERATOR"])

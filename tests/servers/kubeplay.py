"""What stock controllers of Kubernetes, kubelets and the sets' own servers do, for kube.py --play: the operator's
story goes on by itself, from volumes to jobs that end.

Volumes become Available and are bound to the claims that they name; a StatefulSet gets pods that run at once, one a
node; a job's pod is placed (on a node that its required affinity wants), gets an address, waits at the barrier until
its annotation and the ConfigMap name the same peers, runs, and when all of its job run they succeed; a ReplicaSet is
ready; a Job completes. Servers answer on 127.0.0.1:7716 for every name that stands for a pod that is ready, keep jobs
by their ids, and finish each at once. Addresses follow from names, so that two courses can be compared.
"""
import copy
import http.server
import json
import socketserver
import threading
import uuid
import zlib

CORE, APPS, BATCH = "api/v1", "apis/apps/v1", "apis/batch/v1"
PVS, CLAIMS, PODS, NODES, MAPS = (f"{CORE}/{x}" for x in ("persistentvolumes", "persistentvolumeclaims", "pods", "nodes", "configmaps"))
SETS, REPLICAS, JOBS = f"{APPS}/statefulsets", f"{APPS}/replicasets", f"{BATCH}/jobs"
PEERS, BARRIER = "sampan.io/peers", "sampan-barrier"


def address(name):
    h = zlib.crc32(name.encode())
    return f"10.{h >> 16 & 255}.{h >> 8 & 255}.{1 + h % 254}"


def of(obj, *path):
    for p in path:
        obj = obj.get(p) if isinstance(obj, dict) else None
    return obj


class Player(threading.Thread):
    def __init__(self, store, ends):
        super().__init__(daemon=True)
        self.store, self.ends = store, ends
        self.rules = {PVS: self.volume, CLAIMS: self.claim, SETS: self.servers, PODS: self.pod, MAPS: self.config,
                      REPLICAS: self.replicas, JOBS: self.job}
        self.pods_of = {}  # uid of an owner -> keys of its pods

    def run(self):
        """Follows all changes, as one that watches everything."""
        seen = 0
        while True:
            with self.store.lock:
                news = self.store.since(seen)
                if not news:
                    self.store.lock.wait()
                    continue
                seen = news[-1][0]
                for _, kind, key, obj in news:
                    if key[0] in self.rules:
                        self.rules[key[0]](kind, key, obj)

    # --- the store's lock is held for all below ---

    def put(self, key, **parts):
        """Writes these parts of an object, if that changes it."""
        old = self.store.objects.get(key)
        if not old:
            return
        new = copy.deepcopy(old)
        for part, value in parts.items():
            new.setdefault(part, {}).update(value)
        if new != old:
            self.store.write("MODIFIED", key, new)

    def volume(self, kind, key, obj):
        if kind == "DELETED":
            return
        if not of(obj, "status", "phase"):
            self.put(key, status={"phase": "Available"})
        ref = of(obj, "spec", "claimRef")
        claim = ref and self.store.objects.get((CLAIMS, ref["namespace"], ref["name"]))
        if claim:
            self.claim("MODIFIED", (CLAIMS, ref["namespace"], ref["name"]), claim)

    def claim(self, kind, key, obj):
        volume = (PVS, None, of(obj, "spec", "volumeName"))
        if volume not in self.store.objects:
            return
        ref = of(self.store.objects[volume], "spec", "claimRef") or {}
        if (ref.get("namespace"), ref.get("name")) != key[1:]:
            return
        if kind == "DELETED":
            self.put(volume, status={"phase": "Released"})
        elif of(obj, "status", "phase") != "Bound":
            self.put(volume, status={"phase": "Bound"})
            self.put(key, status={"phase": "Bound"})

    def make_pod(self, owner_key, owner, name, node):
        template = owner["spec"]["template"]
        key = (PODS, owner_key[1], name)
        if key in self.store.objects:
            return
        ref = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner_key[2], "uid": owner["metadata"]["uid"], "controller": True}
        meta = {**copy.deepcopy(template["metadata"]), "name": name, "namespace": owner_key[1], "ownerReferences": [ref]}
        spec = {**copy.deepcopy(template["spec"]), "nodeName": node}
        self.store.add(key, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": self.running(name)})

    def running(self, name):
        return {"phase": "Running", "podIP": address(name), "startTime": self.store.now(), "conditions": [{"type": "Ready", "status": "True"}],
                "initContainerStatuses": [{"name": BARRIER, "state": {"terminated": {"exitCode": 0}}}],
                "containerStatuses": [{"name": "main", "ready": True, "state": {"running": {}}}]}

    def servers(self, kind, key, obj):
        if kind == "DELETED" or key not in self.store.objects:
            return
        obj = self.store.objects[key]
        nodes = list(self.fitting(obj["spec"]["template"]))
        n = obj["spec"]["replicas"]
        for k in range(min(n, len(nodes))):
            self.make_pod(key, obj, f"{key[2]}-{k}", nodes[(zlib.crc32(key[2].encode()) + k) % len(nodes)])
        for _, ns, name in [k for k in self.store.objects if k[0] == PODS and k[1] == key[1] and k[2].startswith(key[2] + "-")]:
            if int(name.rsplit("-", 1)[1]) >= n:
                self.store.delete((PODS, ns, name), {})
        self.put(key, status={"replicas": n, "readyReplicas": min(n, len(nodes))})

    def fitting(self, pod):
        wanted = of(pod, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
        for key in sorted(k for k in self.store.objects if k[0] == NODES):
            labels = self.store.objects[key]["metadata"].get("labels", {})
            if not wanted or any(all(e["operator"] == "In" and labels.get(e["key"]) in e["values"] for e in t.get("matchExpressions", []))
                                 for t in wanted):
                yield key[2]

    def config(self, kind, key, obj):
        for owner in obj["metadata"].get("ownerReferences", []):
            for pod in list(self.pods_of.get(owner["uid"], ())):
                if pod in self.store.objects:
                    self.pod("MODIFIED", pod, self.store.objects[pod])

    def pod(self, kind, key, obj):
        owner = next(iter(obj["metadata"].get("ownerReferences", [])), None)
        if not owner:
            return
        mine = self.pods_of.setdefault(owner["uid"], set())
        if kind == "DELETED":
            mine.discard(key)
            if owner["kind"] == "StatefulSet":
                self.servers("MODIFIED", (SETS, key[1], owner["name"]), None)
            return
        if owner["kind"] != "PaddleJob":
            return
        mine.add(key)
        obj = self.store.objects.get(key, obj)
        phase = of(obj, "status", "phase")
        if not of(obj, "spec", "nodeName"):
            fit = list(self.fitting(obj))
            if fit:
                node = fit[zlib.crc32(key[2].encode()) % len(fit)]
                self.put(key, spec={"nodeName": node}, status={"phase": "Pending", "podIP": address(key[2])})
            else:
                self.put(key, status={"phase": "Pending", "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                     "message": "0 nodes are available: none matches the pod's node affinity"}]})
        elif phase == "Pending" and self.passes(key, obj, owner):
            self.put(key, status=self.running(key[2]))
        elif phase == "Running" and self.ends:
            self.end_all(mine)

    def passes(self, key, obj, owner):
        if not any(c["name"] == BARRIER for c in of(obj, "spec", "initContainers") or []):
            return True
        have = of(self.store.objects.get((MAPS, key[1], owner["name"])) or {}, "data", "SAMPAN_PEERS")
        return have is not None and have == of(obj, "metadata", "annotations", PEERS)

    def end_all(self, pods):
        """When all that the job wants have begun, its workers are done."""
        there = [k for k in pods if k in self.store.objects]
        job = self.store.owner(self.store.objects[there[0]])
        n = sum(of(job or {}, "spec", role, "replicas") or 0 for role in ("ps", "worker", "heter"))
        if len(there) < n or any(of(self.store.objects[k], "status", "phase") not in ("Running", "Succeeded") for k in there):
            return
        for k in sorted(there):
            if "-ps-" not in k[2]:
                done = [{"name": "main", "ready": False, "state": {"terminated": {"exitCode": 0}}}]
                self.put(k, status={"phase": "Succeeded", "containerStatuses": done, "conditions": [{"type": "Ready", "status": "False"}]})

    def replicas(self, kind, key, obj):
        if kind != "DELETED":
            self.put(key, status={"replicas": obj["spec"]["replicas"], "readyReplicas": obj["spec"]["replicas"]})

    def job(self, kind, key, obj):
        if kind == "DELETED":
            return
        n = obj["spec"].get("parallelism", 1)
        if self.ends and not of(obj, "status", "succeeded"):
            self.put(key, status={"startTime": self.store.now(), "succeeded": n, "active": 0, "conditions": [{"type": "Complete", "status": "True"}]})
        elif not self.ends:
            self.put(key, status={"active": n})


# --- the sets' servers ---------------------------------------------------------------------------------


class Servers:
    """Jobs by SERVICE.NS/ID, and by which sampler each mount reads. Jobs of the types that `states` has for a
    SERVICE.NS are, and stay, in that state; all others succeed at once."""

    def __init__(self):
        self.jobs, self.samplers, self.pins, self.states, self.posts, self.away = {}, {}, {}, {}, 0, False


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def answer(self, status, obj):
        body = json.dumps(obj).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle_one(self):
        store, servers = self.server.store, self.server.servers
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
        pod, _, service = (self.headers.get("Host") or "").partition(":")[0].partition(".")
        service, _, ns = service.partition(".")
        with store.lock:
            there = store.objects.get((PODS, ns.split(".")[0], pod))
            if not there or servers.away:
                self.close_connection = True
                return
            kill = store.kill_before() if self.command != "GET" else None
            if kill == "before":
                self.close_connection = True
                return
            status, obj = self.play(servers, f"{service}.{ns}", f"{pod}.{ns}", body)
            if kill == "after":
                store.kill_after()
                self.close_connection = True
                return
        self.answer(status, obj)

    do_GET = do_POST = do_DELETE = handle_one

    def play(self, servers, service, pod, body):
        path = self.path.split("?")[0]
        if path == "/v1/status":
            pin = servers.pins.get(pod, "")
            return 200, {"program": "0", "mounts": [{
                "version": pin or "v2", "pinned": bool(pin), "versions": [{"version": v} for v in sorted(["v1", "v2"], key=lambda v: v != (pin or "v2"))],
                "state": "ready", "order": {"sampler": servers.samplers.get(pod, "")}, "set": {"samples": 1000, "bytes": 1000000},
                "cache": {"samples": 0, "bytes": 0, "tiers": [{"tier": "ssd", "limit": 1 << 30, "used": 0, "free": 1 << 40}]},
                "reads": {"total": 0, "disk": 0}}]}
        if path == "/v1/settings":
            (servers.samplers if "sampler" in body else servers.pins)[pod] = body.get("sampler", body.get("version"))
            return 200, {}
        if path == "/v1/jobs":
            servers.posts += 1
            state = servers.states.get(service, {}).get(body["type"], "succeeded")
            job = servers.jobs.setdefault(f"{service}/{body['id']}", {
                **body, "state": state, "error": "no room" if state == "failed" else "", "progress": {"percent": 100.0, "items": 10, "total": 10}})
            return (202, job) if job["options"] == body.get("options") else (409, {"error": "the same id with other options"})
        job = servers.jobs.get(f"{service}/{path.rpartition('/')[2]}")
        if not job:
            return 404, {"error": "there is none of that id"}
        if self.command == "DELETE":
            job["state"] = "cancelled" if job["state"] in ("pending", "running") else job["state"]
        return 200, job


class Listener(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        pass


def play(store, ends):
    player = Player(store, ends)
    player.start()
    listener = Listener(("127.0.0.1", 7716), Server)
    listener.store, listener.servers = store, Servers()
    store.servers = listener.servers
    threading.Thread(target=listener.serve_forever, daemon=True).start()


def uid(key, nth):
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{key} {nth}"))

"""For tests of the operator: the API server of tests/servers/kube.py, and operators around a simple controller."""
import atexit
import http.client
import json
import os
import signal
import subprocess
import sys
import time

T = os.environ["T"]
JOBS = "/apis/batch.paddlepaddle.org/v1/namespaces/default/paddlejobs"
MAPS = "/api/v1/namespaces/default/configmaps"
EVENTS = "/api/v1/namespaces/default/events"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/sampan-operator"
started = []


@atexit.register
def end_all():
    for p in started:
        if p.poll() is None:
            p.kill()
        p.wait()


def expect(what, got, want):
    if got != want:
        raise SystemExit(f"{what}: got {got!r}, want {want!r}")


def until(what, fn, seconds=60):
    """Waits until fn() is true; the time is only where it gives up."""
    give_up = time.monotonic() + 10 * seconds
    while True:
        got = fn()
        if got:
            return got
        if time.monotonic() > give_up:
            raise SystemExit(f"never came: {what() if callable(what) else what}")
        time.sleep(0.02)


class Kube:
    def __init__(self, *options):
        self.log_file, ready = f"{T}/log/kube", f"{T}/kube.port"
        os.makedirs(f"{T}/log", exist_ok=True)
        for old in (ready, self.log_file):
            if os.path.exists(old):
                os.unlink(old)
        command = [sys.executable, os.environ["SAMPAN_TESTS"] + "/servers/kube.py", "--ready", ready, "--log", self.log_file, *options]
        self.process = subprocess.Popen(command, stderr=open(f"{T}/log/kube.err", "a"))
        started.append(self.process)
        until("the API server", lambda: os.path.exists(ready))
        self.port = int(open(ready).read())

    def stop(self):
        self.process.kill()
        self.process.wait()

    def ask(self, method, path, body=None, token="admin"):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        headers = {"Authorization": f"Bearer {token}"}
        if method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        c.request(method, path, json.dumps(body) if body is not None else None, headers)
        r = c.getresponse()
        text = r.read()
        c.close()
        return r.status, json.loads(text) if text else None

    def control(self, **what):
        return self.ask("POST", "/control", what)[1]

    def make(self, path, name, kind, api="v1", **members):
        metadata = {"name": name, **members.pop("metadata", {})}
        status, obj = self.ask("POST", path, {"apiVersion": api, "kind": kind, "metadata": metadata, **members})
        expect(f"make {name}", status, 201)
        return obj

    def job(self, name, **annotations):
        notes = {"toy/" + k: str(v) for k, v in annotations.items()}
        return self.make(JOBS, name, "PaddleJob", "batch.paddlepaddle.org/v1", metadata={"annotations": notes}, spec={})

    def annotate(self, name, **annotations):
        notes = {"toy/" + k: None if v is None else str(v) for k, v in annotations.items()}
        expect("annotate", self.ask("PATCH", f"{JOBS}/{name}", {"metadata": {"annotations": notes}})[0], 200)

    def get(self, path):
        status, obj = self.ask("GET", path)
        return obj if status == 200 else None

    def names(self, path):
        return sorted(o["metadata"]["name"] for o in self.get(path)["items"])

    def phase(self, name):
        return (self.get(f"{JOBS}/{name}") or {}).get("status", {}).get("phase")

    def running(self, *names):
        until(f"{names} run", lambda: all(self.phase(n) == "Running" for n in names))

    def lines(self, *words, who=None):
        """Requests (status, who, method, target, body) whose line has all words; ours left out."""
        rows = [line.split(" ", 4) for line in open(self.log_file, errors="replace").read().splitlines()]
        return [r for r in rows if r[1] != "admin" and (not who or r[1] == who) and all(w in " ".join(r) for w in words)]

    def created(self, path):
        """How many objects operators made there."""
        return len([r for r in self.lines() if r[0] == "201" and r[2] == "POST" and r[3] == path])

    def leader(self):
        return ((self.get(LEASE) or {}).get("spec") or {}).get("holderIdentity") or ""


class Operator:
    """One operator; its token is its name, so that the log tells who asked."""

    def __init__(self, kube, name, *options, token=None, program=None):
        self.name, self.kube, self.program = name, kube, program or os.environ["TOY"]
        self.config, self.token_file, self.log_file = f"{T}/{name}.config", f"{T}/{name}.token", f"{T}/log/{name}"
        self.set_token(token or name)
        with open(self.config, "w") as f:
            f.write(f"""apiVersion: v1
kind: Config
current-context: test
contexts:
- name: test
  context: {{cluster: here, user: "{name}"}}
clusters:
- name: here
  cluster:
    server: http://127.0.0.1:{kube.port}/
users:
- name: {name}
  user: {{tokenFile: {name}.token}}
""")
        self.options = ["--kubeconfig", self.config, "--log-format", "text", "--log-level", "debug", "--metrics", "127.0.0.1:0", *options]
        self.start()

    def set_token(self, token):
        with open(self.token_file + ".new", "w") as f:
            f.write(token + "\n")
        os.rename(self.token_file + ".new", self.token_file)

    def start(self):
        self.process = subprocess.Popen([self.program, *self.options], stderr=open(self.log_file, "a"), start_new_session=True)
        started.append(self.process)

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        expect(f"{self.name} ends", self.process.wait(timeout=300), 0)

    def log(self):
        return open(self.log_file, errors="replace").read()

    def metric(self, name):
        text = self.page("/metrics")[1]
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name + " ") or line.startswith(name + "{"))

    def address(self):
        """The kernel chose the port: the listening socket of this process."""
        inodes = set()
        for fd in os.listdir(f"/proc/{self.process.pid}/fd"):
            try:
                link = os.readlink(f"/proc/{self.process.pid}/fd/{fd}")
            except OSError:
                continue
            if link.startswith("socket:["):
                inodes.add(link[8:-1])
        for line in open("/proc/net/tcp").read().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                return int(words[1].split(":")[1], 16)
        return None

    def page(self, path):
        port = until("the pages", self.address)
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        c.request("GET", path)
        r = c.getresponse()
        text = r.read().decode()
        c.close()
        return r.status, text

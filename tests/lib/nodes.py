"""Machines on one machine: network namespaces, each with a narrow link to one S3 store and a wide net to the others.

    with Nodes(folder, source, rate="50mbit") as nodes:
        nodes.mount("64MB"); nodes.serve()
        nodes.warmup("w", sampler="torch-distributed,ranks=4")
        orders = nodes.orders("torch-distributed,ranks=4", epochs=3)
        nodes.begin_epoch(1); nodes.read_epoch(orders, 1)

Node i is 10.9.0.(10+i) towards the store (10.9.0.1) and 10.8.0.(10+i) towards the others. A namespace has no name:
it lives while its holder does, which ends with this process, however that ends, and takes its interfaces along.
The store is an S3 bucket "samples" over the folder `source`; each request is a line of its access log.
"""
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
from pathlib import Path

SAMPAN = os.environ.get("SAMPAN", "build/bin/sampan")
STORE = "10.9.0.1"
PORT = 7716
TOKEN = "0123456789abcdef-nodes"
LIBC = ctypes.CDLL(None)


def until(what, check, seconds=60):
    end = time.monotonic() + 10 * seconds
    while True:
        got = check()
        if got:
            return got
        if time.monotonic() > end:
            raise RuntimeError(f"{what}: never came")
        time.sleep(0.05)


def end_with_parent():
    LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def same_net(pid):
    return os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net")


def unable():
    """Why this machine cannot do it, or None."""
    for words in (["ip", "-V"], ["tc", "-V"], ["nsenter", "--version"]):
        try:
            subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
        except (OSError, subprocess.SubprocessError):
            return f"no {words[0]} here"
    script = "ip link add net-x type bridge && ip link add v type veth peer name w && tc qdisc add dev v root tbf rate 1mbit burst 16kb latency 1s"
    done = subprocess.run(["unshare", "-n", "sh", "-c", script], stderr=subprocess.PIPE, check=False)
    return f"no network of its own: {done.stderr.decode().strip()}" if done.returncode else None


class Space:
    """A network namespace."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "-n", "sleep", "infinity"], preexec_fn=end_with_parent)
        until("a network namespace", lambda: not same_net(self.holder.pid))
        self.inside = ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net"]
        self.run("ip", "link", "set", "lo", "up")

    def run(self, *words, **more):
        return subprocess.run([*self.inside, *map(str, words)], check=True, **more)

    def start(self, *words, **more):
        return subprocess.Popen([*self.inside, *map(str, words)], preexec_fn=end_with_parent, **more)

    def close(self):
        self.holder.kill()
        self.holder.wait()


class Node:
    """One machine: its mount and its server."""

    def __init__(self, nodes, i):
        self.nodes, self.i, self.space = nodes, i, Space()
        self.address = f"10.8.0.{10 + i}"
        self.url = f"http://{self.address}:{PORT}"
        self.where, self.cache = nodes.folder / f"m{i}", nodes.folder / f"c{i}"
        self.server, self.mounted = None, False
        self.where.mkdir()
        self.wire("s", f"10.9.0.{10 + i}", nodes.rate)
        self.wire("p", self.address, None)

    def wire(self, net, address, rate):
        """An interface at the hub's bridge of this net; both directions are as narrow as `rate`."""
        hub, ours = f"{net}{self.i}", f"eth-{net}"
        pid = str(self.space.holder.pid)
        self.nodes.hub.run("ip", "link", "add", hub, "type", "veth", "peer", "name", ours, "netns", pid)
        self.nodes.hub.run("ip", "link", "set", hub, "master", f"net-{net}", "up")
        self.space.run("ip", "addr", "add", f"{address}/24", "dev", ours)
        self.space.run("ip", "link", "set", ours, "up")
        if rate:
            for space, device in ((self.nodes.hub, hub), (self.space, ours)):
                space.run("tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", rate, "burst", "32kb", "latency", "200ms")

    def sampan(self, *words, timeout=600):
        done = subprocess.run([*self.space.inside, SAMPAN, *map(str, words)], env=self.nodes.env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=timeout, check=False)
        if done.returncode:
            raise RuntimeError(f"node {self.i}: sampan {' '.join(map(str, words))}: {done.stderr.decode(errors='replace').strip()[-400:]}")
        return done.stdout

    def mount(self, cache, *options):
        self.sampan("mount", self.nodes.set, self.where, "--catalog", self.nodes.catalog, "--cache", f"ssd:{self.cache}={cache}",
                    "--free-space", "1%", "--quiet", "--peer-token-file", self.nodes.token, *options)
        self.mounted = True

    def serve(self):
        log = self.nodes.folder / "log" / f"serve{self.i}"
        with open(log, "ab") as out:
            self.server = self.space.start(
                SAMPAN, "serve", "--listen", f"{self.address}:{PORT}", "--state", self.nodes.folder / f"state{self.i}", "--token-file",
                self.nodes.token, "--mount", self.where, "--ordinal", self.i, "--partitions", self.nodes.n, "--peers",
                ",".join(node.url for node in self.nodes.all), stdout=out, stderr=out, env=self.nodes.env)

    def kill(self):
        """The server, as a power cut does."""
        self.server.kill()
        self.server.wait()

    def status(self):
        return json.loads(self.sampan("status", self.where, "--json"))

    def from_peers(self):
        return sum(peer["samples"] for peer in self.status()["peers"])

    def read(self, numbers):
        """Samples by number, each compared with its source."""
        for number in numbers:
            path = self.nodes.paths[number]
            with open(self.where / path, "rb") as got, open(self.nodes.source / path, "rb") as want:
                if got.read() != want.read():
                    raise RuntimeError(f"node {self.i}: {path} is wrong")

    def forget_pages(self):
        for folder, _, names in os.walk(self.where):
            for name in names:
                fd = os.open(os.path.join(folder, name), os.O_RDONLY)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)

    def close(self):
        if self.server:
            self.kill()
        if self.mounted:
            subprocess.run([*self.space.inside, SAMPAN, "umount", self.where], env=self.nodes.env, stderr=subprocess.DEVNULL, check=False)
            if os.path.ismount(self.where):
                subprocess.run(["umount", "-l", str(self.where)], check=False)
        self.space.close()


class Nodes:
    def __init__(self, folder, source, n=4, rate="50mbit"):
        self.folder, self.source, self.n, self.rate = Path(folder), Path(source), n, rate
        self.all, self.store, self.hub = [], None, None
        (self.folder / "log").mkdir(parents=True, exist_ok=True)
        self.log, self.catalog, self.token = self.folder / "log" / "store", self.folder / "set.catalog", self.folder / "token"
        self.token.write_text(TOKEN + "\n")
        self.set = "s3://samples/"
        files = (Path(at, name) for at, _, names in os.walk(self.source) for name in names)
        self.paths = sorted((str(f.relative_to(self.source)) for f in files), key=os.fsencode)

    def __enter__(self):
        try:
            self.hub = Space()
            for net, address in (("s", f"{STORE}/24"), ("p", "10.8.0.1/24")):
                self.hub.run("ip", "link", "add", f"net-{net}", "type", "bridge")
                self.hub.run("ip", "addr", "add", address, "dev", f"net-{net}")
                self.hub.run("ip", "link", "set", f"net-{net}", "up")
            self.start_store()
            for i in range(self.n):
                self.all.append(Node(self, i))
            self.all[0].sampan("scan", self.set, "--cache", f"ssd:{self.folder / 'scan'}=1GiB", "-o", self.catalog)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for node in self.all:
            node.close()
        self.stop_store()
        if self.hub:
            self.hub.close()

    def start_store(self):
        ready = self.folder / "store.port"
        errors = open(self.folder / "log" / "store.err", "ab")  # clients that go away
        self.store = self.hub.start(sys.executable, Path(__file__).parent.parent / "servers" / "s3odd.py", "--root", self.source,
                                    "--bucket", "samples", "--ready", ready, "--log", self.log, "--address", STORE, stderr=errors)
        until("the store", ready.exists)
        self.env = dict(os.environ, SAMPAN_PEER_PATIENCE_MS="120000", AWS_ENDPOINT_URL=f"http://{STORE}:{ready.read_text()}", AWS_ACCESS_KEY_ID="reader",
                        AWS_SECRET_ACCESS_KEY="secret", AWS_REGION="us-east-1")

    def stop_store(self):
        if self.store:
            self.store.kill()
            self.store.wait()
        self.store = None

    def requests(self):
        """Samples that the store was asked for so far, by path: one for each request."""
        targets = [line.split()[1].partition("?")[0] for line in self.log.read_text().splitlines() if line.startswith("GET ")]
        keys = (urllib.parse.unquote(target)[len("/samples/"):] for target in targets)
        known = set(self.paths)
        return [key for key in keys if key in known]

    # --- what all of them do

    def mount(self, cache, *options):
        for node in self.all:
            node.mount(cache, "--partition", f"{node.i}/{self.n}", *options)

    def serve(self):
        for node in self.all:
            node.serve()
        for node in self.all:
            node.sampan("set", node.where, "peers=" + ",".join(other.url for other in self.all))
            self.meet(node)

    def meet(self, node):
        until(f"node {node.i} finds the others", lambda: all(peer["state"] in ("ok", "self") for peer in node.status()["peers"] if peer["partition"] != node.i)
              and len(node.status()["peers"]) >= self.n - 1)

    def ask(self, i, method, path, body=None):
        """Of the server of node i; a request from the outside, through the hub."""
        words = ["curl", "-s", "-X", method, "-H", f"Authorization: Bearer {TOKEN}", "--max-time", "30", self.all[i].url + path]
        if body is not None:
            words += ["-d", json.dumps(body)]
        return json.loads(self.hub.run(*words, stdout=subprocess.PIPE).stdout)

    def warmup(self, name, seconds=300, **options):
        """A job of the cluster, posted to the last server; its result."""
        self.ask(self.n - 1, "POST", "/v1/jobs", {"id": name, "type": "warmup", "options": options})

        def ended():
            job = self.ask(1, "GET", f"/v1/jobs/{name}")
            if job["state"] in ("failed", "cancelled"):
                raise RuntimeError(f"warmup {name}: {job}")
            return job["state"] == "succeeded" and job
        return until(f"warmup {name}", ended, seconds)["result"]

    def clear(self):
        for node in self.all:
            node.sampan("clear", node.where)

    def plain_gets(self, connections=8):
        """Each node gets its part of all samples over its link by curl, all at once; bytes a second."""
        url, size = self.env["AWS_ENDPOINT_URL"], sum((self.source / path).stat().st_size for path in self.paths)
        running = []
        began = time.monotonic()
        for node in self.all:
            asked = self.folder / f"plain{node.i}"
            asked.write_text("".join(f'url = "{url}/samples/{urllib.parse.quote(path)}"\noutput = /dev/null\n' for path in self.paths[node.i::self.n]))
            day = time.strftime("%Y%m%d", time.gmtime())
            running.append(node.space.start(
                "curl", "-sfZ", "--parallel-max", connections, "-K", asked,
                "-H", f"Authorization: AWS4-HMAC-SHA256 Credential=reader/{day}/us-east-1/s3/aws4_request,",
                "-H", f"x-amz-date: {time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}", stderr=subprocess.DEVNULL))
        if [curl.wait() for curl in running] != [0] * self.n:
            raise RuntimeError("plain GETs fail")
        return size / (time.monotonic() - began)

    # --- training -----------------------------------------------------------------------------------

    def orders(self, spec, epochs):
        """Numbers by rank and epoch."""
        got = []
        for rank in range(self.n):
            words = [SAMPAN, "plan", "--count", str(len(self.paths)), "--sampler", f"{spec},rank={rank},epochs={epochs}", "--print", "order"]
            numbers = [int(n) for n in subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout.split()]
            each = len(numbers) // epochs
            got.append([numbers[e * each:(e + 1) * each] for e in range(epochs)])
        return got

    def begin_epoch(self, epoch):
        for node in self.all:
            node.sampan("set", node.where, f"epoch={epoch}")

    def read_epoch(self, orders, epoch, in_the_middle=None):
        """What each rank reads, in its order, all ranks at once; seconds. No page is in the kernel's cache.

        `in_the_middle` is called when every rank has read the first half of its samples, and before any goes on."""
        failed, half = [], threading.Barrier(self.n, in_the_middle)
        for node in self.all:
            node.forget_pages()

        def rank(node):
            try:
                numbers = orders[node.i][epoch]
                node.read(numbers[:len(numbers) // 2])
                half.wait()
                node.read(numbers[len(numbers) // 2:])
            except Exception as e:  # pylint: disable=broad-exception-caught
                half.abort()
                failed.append(e)

        began = time.monotonic()
        ranks = [threading.Thread(target=rank, args=(node,)) for node in self.all]
        for thread in ranks:
            thread.start()
        for thread in ranks:
            thread.join()
        if failed:
            raise RuntimeError(f"epoch {epoch}: {failed[0]}")
        return time.monotonic() - began

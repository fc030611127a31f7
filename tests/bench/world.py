"""What a benchmark stands on: sample sets, a web server, links, mounts, and the readers that are timed.

Everything started here is ended by World.close(), whatever happens; nothing outside `dir` is touched but
the page cache.
"""
import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

SAMPAN = os.environ.get("SAMPAN", "build/bin/sampan")
TOOLS = Path(os.environ.get("TOOLS", "build/tools"))
TICK = os.sysconf("SC_CLK_TCK")


def run_json(*command, timeout=600):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.decode(errors='replace').strip()[-400:]}")
    return json.loads(done.stdout)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def forget_pages():
    """The page cache and, with 3, dentries and inodes: what a reader finds after a reboot."""
    subprocess.run(["sync"], check=True)
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


def machine():
    cpu = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "?")
    memory = int(Path("/proc/meminfo").read_text().split()[1]) >> 20
    return f"{os.cpu_count()} cores ({cpu}), {memory} GiB, Linux {platform.release()}"


class Mount:
    """One mounted set. Figures come from its status and from /proc."""

    def __init__(self, world, source, cache, *options, tier="40GiB"):
        self.world, self.where, self.throw_away = world, world.folder("mnt"), None
        began = time.monotonic()
        done = subprocess.run([SAMPAN, "mount", source, self.where, "--cache", f"ssd:{cache}={tier}", "--free-space", "1%",
                               "--quiet", *map(str, options)], env=world.env, stderr=subprocess.PIPE, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.decode(errors="replace").strip())
        self.seconds = time.monotonic() - began
        world.mounts.append(self)
        self.pid = self.status()["pid"]

    def status(self):
        return run_json(SAMPAN, "status", self.where, "--json")

    def cpu(self):
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def resident(self):
        text = Path(f"/proc/{self.pid}/status").read_text()
        return 1024 * sum(int(n) for n in re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+)", text, re.M))

    def warmup(self):
        return run_json(SAMPAN, "warmup", self.where, "--json", "--quiet")

    def close(self):
        self.world.mounts.remove(self)
        subprocess.run([SAMPAN, "umount", self.where], env=self.world.env, check=False)
        for _ in range(200):
            if not Path(f"/proc/{self.pid}").exists():
                break
            time.sleep(0.02)
        os.rmdir(self.where)
        if self.throw_away:
            shutil.rmtree(self.throw_away)


class World:
    def __init__(self, base, quick):
        self.base, self.quick = Path(base).resolve(), quick
        self.base.mkdir(parents=True, exist_ok=True)
        self.scratch = Path(tempfile.mkdtemp(prefix="run-", dir=self.base))
        self.mounts, self.processes = [], []
        self.env = dict(os.environ, SAMPAN_RUN_DIR=str(self.folder("run")))
        os.environ["SAMPAN_RUN_DIR"] = self.env["SAMPAN_RUN_DIR"]

    def folder(self, name):
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.scratch))

    def forget(self, folder):
        """Away with it before the run ends: a cache that nobody needs any more."""
        shutil.rmtree(folder, ignore_errors=True)

    def make_set(self, files, size, classes=10):
        """Files of incompressible bytes in class folders, written once and kept between runs."""
        where = self.base / f"set-{files}x{size}"
        complete = self.base / f".{where.name}.complete"
        if not complete.exists():
            shutil.rmtree(where, ignore_errors=True)
            for i in range(files):
                at = where / f"class-{i % classes:02d}"
                at.mkdir(parents=True, exist_ok=True)
                (at / f"{i:07d}.bin").write_bytes(os.urandom(size))
            complete.touch()
        return where

    def manifest(self, where):
        """A file beside the set that names its samples, as nginx serves it at /manifest.tsv."""
        lines = [f"{p.relative_to(where)}\t{p.stat().st_size}\t{int(p.stat().st_mtime)}\n"
                 for p in sorted(where.glob("*/*.bin"))]
        path = self.folder("manifest") / "manifest.tsv"
        path.write_text("".join(lines))
        return f"location = /manifest.tsv {{ alias {path}; }}"

    def nginx(self, root, extra=""):
        port, home = free_port(), self.folder("nginx")
        (home / "conf").write_text(f"""
daemon off; pid {home}/pid; error_log {home}/error; worker_processes 1; user root;
events {{ worker_connections 4096; }}
http {{
    access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000; open_file_cache max=20000;
    client_body_temp_path {home}/1; proxy_temp_path {home}/2; fastcgi_temp_path {home}/3;
    uwsgi_temp_path {home}/4; scgi_temp_path {home}/5;
    server {{ listen 127.0.0.1:{port} backlog=4096; root {root}; {extra} }}
}}""")
        self.processes.append(subprocess.Popen(["nginx", "-p", str(home), "-c", str(home / "conf")], stderr=subprocess.DEVNULL))
        for _ in range(200):
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", port)) == 0:
                    return port
            time.sleep(0.02)
        raise RuntimeError("nginx does not start")

    def link(self, port, one_way_ms, rate=0):
        relay = subprocess.Popen([str(TOOLS / "delay"), str(port), str(one_way_ms), str(rate)], stdout=subprocess.PIPE)
        self.processes.append(relay)
        return int(relay.stdout.readline())

    def close(self):
        for mount in list(self.mounts):
            try:
                mount.close()
            except (OSError, subprocess.SubprocessError):
                subprocess.run(["umount", "-l", str(mount.where)], check=False)
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.scratch, ignore_errors=True)


def epoch(where, threads, seed=None, *options, epochs=1, timeout=600):
    """Passes of `sampan bench epoch`, in random order by seed unless the options say otherwise."""
    words = [SAMPAN, "bench", "epoch", where, "--threads", threads, "--epochs", epochs, "--json", "--quiet"]
    if seed is not None:
        words += ["--order", "shuffle", "--seed", seed]
    done = subprocess.run([str(w) for w in (*words, *options)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, check=False)
    if done.returncode:
        raise RuntimeError(f"bench epoch {where}: {done.stderr.decode(errors='replace').strip()[-400:]}")
    passes = [json.loads(line) for line in done.stdout.splitlines()]
    total = {name: sum(p[name] for p in passes) for name in ("samples", "bytes", "seconds", "errors")}
    return {**passes[-1], **total, "samples_per_s": total["samples"] / total["seconds"]}


def plain_gets(url, paths, connections, *options):
    """Samples a second that curl gets with so many connections: what the server gives anybody."""
    with tempfile.NamedTemporaryFile("w", suffix=".urls") as urls:
        for path in paths:
            urls.write(f'url="{url}/{path}"\noutput=/dev/null\n')
        urls.flush()
        began = time.monotonic()
        subprocess.run(["curl", "-s", "--no-progress-meter", "--parallel", "--parallel-max", str(connections), *options, "-K", urls.name],
                       check=True, stdout=subprocess.DEVNULL)
        return len(paths) / (time.monotonic() - began)

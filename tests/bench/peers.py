#!/usr/bin/env python3
"""Sampan beside other programs that mount a bucket: one server, one link, one reader, one run.

    peers.py [--dir DIR] [--samples N] [--size BYTES] [--threads T] [--repeats N] [NAME...]

Measured are those that are installed: sampan, s3fs, rclone, mount-s3 (mountpoint-s3), geesefs, goofys, each
with its cache on the local disk; and the plain disk. In each repeat all take their turn, in another order:

    walk     the first `find` with sizes, right after mounting
    cold     every sample once, nothing cached
    hot      every sample again
    again    every sample after unmounting and mounting anew with the same cache folder

Every byte is compared in a pass of its own at the end. Writes peers.md and peers-raw.jsonl into DIR.
The server is MinIO (`make conformance` builds it); a link of 2 ms each way lies before it.
"""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from world import SAMPAN, TICK, World, free_port, run_json

KEY, SECRET, BUCKET = "benchmark", "benchmark-secret", "samples"
ROWS = ("walk", "cold", "hot", "again")


def commands(endpoint, cache, mnt, home):
    """How each is started in the foreground; what it needs in its environment."""
    remote = f":s3,provider=Minio,endpoint='{endpoint}':{BUCKET}"
    return {
        "sampan": ([SAMPAN, "mount", f"s3://{BUCKET}/", mnt, "--endpoint", endpoint, "--cache", f"ssd:{cache}=40GiB",
                    "--free-space", "1%", "--quiet", "--foreground"]),
        "s3fs": (["s3fs", BUCKET, mnt, "-f", "-o", f"url={endpoint}", "-o", "use_path_request_style", "-o", f"use_cache={cache}",
                  "-o", f"passwd_file={home}/s3fs", "-o", "ro", "-o", "stat_cache_expire=86400", "-o", "max_stat_cache_size=1000000"]),
        "rclone": (["rclone", "mount", remote, mnt, "--read-only", "--vfs-cache-mode", "full", "--cache-dir", cache,
                    "--dir-cache-time", "24h", "--attr-timeout", "24h", "--vfs-cache-max-age", "24h", "--no-modtime"]),
        "mount-s3": (["mount-s3", BUCKET, mnt, "--foreground", "--endpoint-url", endpoint, "--force-path-style", "--read-only",
                      "--cache", cache, "--metadata-ttl", "indefinite"]),
        "geesefs": (["geesefs", "-f", "--endpoint", endpoint, "--cache", cache, "--stat-cache-ttl", "24h", "-o", "ro", BUCKET, mnt]),
        "goofys": (["goofys", "-f", "--endpoint", endpoint, "--stat-cache-ttl", "24h", "--type-cache-ttl", "24h", "-o", "ro", BUCKET, mnt]),
    }


class PeerMount:
    def __init__(self, world, name, endpoint, cache):
        self.world, self.where = world, world.folder("mnt")
        command = commands(endpoint, cache, self.where, world.base)[name]
        self.log = (world.scratch / f"{name}.log").open("ab")
        self.process = subprocess.Popen([str(c) for c in command], env=world.env, stdout=self.log, stderr=self.log)
        world.mounts.append(self)
        for _ in range(3000):
            if os.path.ismount(self.where):
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        tail = (world.scratch / f"{name}.log").read_text(errors="replace").strip().splitlines()[-1:]
        raise RuntimeError(f"{name} does not mount: {' '.join(tail)}")

    def used(self):
        """CPU seconds and resident bytes of all its processes."""
        cpu = resident = 0
        family = {self.process.pid}
        for _ in range(3):
            for stat in Path("/proc").glob("[0-9]*/stat"):
                try:
                    fields = stat.read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                if int(fields[1]) in family:
                    family.add(int(stat.parent.name))
        for pid in family:
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                cpu += (int(fields[11]) + int(fields[12])) / TICK
                for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                    if line.startswith(("RssAnon", "RssShmem")):
                        resident += 1024 * int(line.split()[1])
            except OSError:
                continue
        return cpu, resident

    def close(self):
        if self in self.world.mounts:
            self.world.mounts.remove(self)
        if os.path.ismount(self.where):
            subprocess.run(["umount", self.where], check=False)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        os.rmdir(self.where)


def epoch(where, options, *more):
    return run_json(SAMPAN, "bench", "epoch", where, "--json", "--quiet", "--threads", options.threads, *more)


def serve(world, source):
    """The port of a MinIO that has the set in BUCKET, where its keys and anybody may read it."""
    minio = os.environ.get("MINIO", "")
    if not os.access(minio, os.X_OK):
        raise RuntimeError("no MinIO here (make conformance builds it once; or MINIO=PATH)")
    port = free_port()
    env = dict(os.environ, MINIO_ROOT_USER=KEY, MINIO_ROOT_PASSWORD=SECRET)
    world.processes.append(subprocess.Popen([minio, "server", "--quiet", "--address", f"127.0.0.1:{port}", str(world.folder("minio"))],
                                            env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    ready = f"http://127.0.0.1:{port}/minio/health/ready"
    for _ in range(300):
        if subprocess.run(["curl", "-sf", "-o", os.devnull, ready], check=False).returncode == 0:
            break
        time.sleep(0.1)
    world.env.pop("AWS_CA_BUNDLE", None)  # rclone 1.60 mounts nothing where it is set
    world.env.update(RCLONE_S3_ACCESS_KEY_ID=KEY, RCLONE_S3_SECRET_ACCESS_KEY=SECRET, AWS_ACCESS_KEY_ID=KEY,
                     AWS_SECRET_ACCESS_KEY=SECRET, AWS_REGION="us-east-1", AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}")
    for step in (["make", BUCKET], ["put", BUCKET, str(source)], ["public", BUCKET]):
        subprocess.run([os.environ.get("VENV_PYTHON", "python3"), "tests/lib/s3.py", *step], env=world.env, check=True)
    return port


def s3fs_keys(world):
    secret = world.base / "s3fs"
    secret.write_text(f"{KEY}:{SECRET}\n")
    secret.chmod(0o600)


def turn(world, name, endpoint, files, options, keep):
    """One peer, all rows: {row: seconds}, and what the cold pass cost."""
    cache = world.folder("cache")
    took, cost = {}, {}
    mount = PeerMount(world, name, endpoint, cache)
    try:
        began = time.monotonic()
        found = sum(e.stat().st_size > 0 for d in os.scandir(mount.where) if d.is_dir() for e in os.scandir(d))
        took["walk"] = time.monotonic() - began
        assert found == options.samples, f"{name} lists {found} of {options.samples}"
        before = mount.used()[0]
        took["cold"] = epoch(mount.where, options)["seconds"]
        after = mount.used()
        cost = {"cpu_s_per_10k": (after[0] - before) * 10000 / options.samples, "resident": after[1]}
        took["hot"] = epoch(mount.where, options)["seconds"]
        if keep:
            epoch(mount.where, options, "--verify", "--compare", files)
    finally:
        mount.close()
    mount = PeerMount(world, name, endpoint, cache)
    try:
        took["again"] = epoch(mount.where, options)["seconds"]
    finally:
        mount.close()
    shutil.rmtree(cache)
    return took, cost


def table(results, options, left_out):
    rate = lambda name, row: options.samples / statistics.median(r["took"][row] for r in results[name])
    lines = [f"{options.samples} samples of {options.size} bytes, {options.threads} readers, medians of {options.repeats}, "
             f"load {os.getloadavg()[0]:.1f}; samples/s", "",
             "| | walk | cold | hot | again | CPU s per 10 000 (cold) | resident |", "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for name in results:
        cells = [f"{rate(name, row):,.0f}" if row in results[name][0]["took"] else "" for row in ROWS]
        cost = results[name][0]["cost"]
        cells += [f"{cost['cpu_s_per_10k']:.1f}", f"{cost['resident'] / 2**20:.0f} MiB"] if cost else ["", ""]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines + [""] + [f"Left out: {name} ({why})." for name, why in left_out.items()]) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", default="build/bench")
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--size", type=int, default=115000)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    world = World(options.dir, False)
    left_out, results = {}, {"plain disk": []}
    try:
        files = world.make_set(options.samples, options.size)
        try:
            port = serve(world, files)
        except RuntimeError as e:
            sys.exit(f"bench-peers: {e}")
        s3fs_keys(world)
        endpoint = f"http://127.0.0.1:{world.link(port, 2)}"
        known = commands(endpoint, "", "", "")
        for name in options.names or known:
            if name == "sampan" or shutil.which(known[name][0]):
                results[name] = []
            else:
                left_out[name] = "not installed here"
        with (world.base / "peers-raw.jsonl").open("a") as raw:
            for repeat in range(options.repeats):
                names = list(results)
                random.Random(repeat).shuffle(names)
                for name in names:
                    try:
                        if name == "plain disk":
                            epoch(files, options)
                            took, cost = {"hot": epoch(files, options)["seconds"]}, {}
                        else:
                            took, cost = turn(world, name, endpoint, files, options, repeat == 0)
                    except (RuntimeError, AssertionError, OSError, subprocess.SubprocessError) as e:
                        left_out[name] = str(e)[-200:]
                        del results[name]
                        continue
                    results[name].append({"took": took, "cost": cost})
                    raw.write(json.dumps({"name": name, "repeat": repeat, "load": os.getloadavg()[0], "took": took, "cost": cost}) + "\n")
                    print(f"{name}: " + ", ".join(f"{row} {options.samples / s:,.0f}/s" for row, s in took.items()), flush=True)
        text = table(results, options, left_out)
        (world.base / "peers.md").write_text(text)
        print("\n" + text)
    finally:
        world.close()


if __name__ == "__main__":
    main()

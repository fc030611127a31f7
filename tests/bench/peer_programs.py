"""Programs that show a bucket as a folder, each set up as its own documentation says for a training set that is
read many times: a cache on the local disk that holds all of it, and metadata that are kept.

A program is found in PATH, or in the folder that `fetch-peers` fills (PEERS_BIN). One that is not there is left out.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

from world import SAMPAN, TICK, free_port, run_json

sys.path.insert(0, str(Path(__file__).parent.parent / "lib"))

KEY, SECRET, BUCKET = "benchmark", "benchmark-secret", "samples"
SET = "set/"  # where peers.py has its samples: what it writes and changes lies beside them
BIN = os.environ.get("PEERS_BIN", "")
LONGEST = 240  # seconds that one step of one program may take


def found(program):
    return shutil.which(program, path=f"{BIN}:{os.environ['PATH']}")


def run(*command, env=None, seconds=LONGEST):
    done = subprocess.run([str(c) for c in command], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=seconds, check=False,
                          stdin=subprocess.DEVNULL)
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()[-1:]
        raise RuntimeError(f"{Path(str(command[0])).name} {command[1] if len(command) > 1 else ''}: {' '.join(said)[-300:]}")
    return done.stdout.decode(errors="replace")


# --- the server ---------------------------------------------------------------------------------------


class Store:
    """A MinIO of its own, on a folder of the run's; it takes anybody's word for nothing."""

    def __init__(self, world):
        minio = os.environ.get("MINIO") or found("minio") or ""
        if not os.access(minio, os.X_OK):
            raise RuntimeError("no MinIO here (tests/bench/fetch-peers builds it once; or MINIO=PATH)")
        self.world, self.folder, self.port, self.program = world, world.folder("minio"), free_port(), minio
        self.endpoint, self.boto = f"http://127.0.0.1:{self.port}", None
        env = dict(os.environ, MINIO_ROOT_USER=KEY, MINIO_ROOT_PASSWORD=SECRET)
        world.processes.append(subprocess.Popen([minio, "server", "--quiet", "--address", f"127.0.0.1:{self.port}", str(self.folder)], env=env,
                                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True))
        for _ in range(600):
            if subprocess.run(["curl", "-sf", "-o", os.devnull, f"{self.endpoint}/minio/health/ready"], check=False).returncode == 0:
                break
            time.sleep(0.1)
        world.env.pop("AWS_CA_BUNDLE", None)  # rclone 1.60 mounts nothing where it is set
        world.env.update(RCLONE_S3_ACCESS_KEY_ID=KEY, RCLONE_S3_SECRET_ACCESS_KEY=SECRET, AWS_ACCESS_KEY_ID=KEY,
                         AWS_SECRET_ACCESS_KEY=SECRET, AWS_REGION="us-east-1", AWS_ENDPOINT_URL=self.endpoint)

    def s3(self, *words, data=None):
        subprocess.run([os.environ.get("VENV_PYTHON", "python3"), "tests/lib/s3.py", *map(str, words)], env=self.world.env, input=data, check=True)

    def mark(self, prefix):
        """The empty object that stands for a folder: s3fs mounts no other. By a process of its own: MinIO holds the next
        request of a connection that has brought an empty body for 30 s."""
        self.s3("put-bytes", BUCKET, prefix, data=b"")

    def put_bytes(self, key, data):
        self.client().put_object(Bucket=BUCKET, Key=key, Body=data)

    def delete(self, key):
        self.client().delete_object(Bucket=BUCKET, Key=key)

    def client(self):
        """In this process: one started for each object would take longer than the object."""
        if not self.boto:
            import s3  # pylint: disable=import-outside-toplevel,import-error
            os.environ.update({name: value for name, value in self.world.env.items() if name.startswith("AWS_")})
            self.boto = s3.client()
        return self.boto

    def put(self, folder, prefix):
        run(SAMPAN, "sync", f"file://{folder}/", f"s3://{BUCKET}/{prefix}", "--quiet", env=self.world.env, seconds=900)

    def objects(self, prefix):
        """How many objects there are below a prefix, by the server's own folder."""
        return sum("xl.meta" in names for _, _, names in os.walk(self.folder / BUCKET / prefix))

    def version(self):
        """One built from source knows none: that of tests/lib/programs.sh."""
        said = run(self.program, "--version").splitlines()[0].replace("minio version ", "").strip()
        return "built from source" if said.startswith("DEVELOPMENT") else said


def serve(world, source):
    """The port of a MinIO that has the set in BUCKET, where its keys and anybody may read it."""
    store = Store(world)
    for step in (["make", BUCKET], ["put", BUCKET, source], ["public", BUCKET]):
        store.s3(*step)
    return store.port


def s3fs_keys(world):
    secret = world.scratch / "s3fs"
    secret.write_text(f"{KEY}:{SECRET}\n")
    secret.chmod(0o600)


# --- processes ----------------------------------------------------------------------------------------


def processes():
    """{pid: (parent, session, CPU seconds)} of all."""
    table = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        table[int(stat.parent.name)] = (int(fields[1]), int(fields[3]), (int(fields[11]) + int(fields[12])) / TICK)
    return table


def cost(pids):
    """CPU seconds and resident bytes (what is not a file's) of these processes."""
    table, resident = processes(), 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        resident += 1024 * sum(int(n) for n in re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+)", text, re.M))
    return sum(table[pid][2] for pid in pids if pid in table), resident


def mounted(where):
    """Without touching it: a mount whose program hangs would not answer."""
    return f" {where} " in Path("/proc/self/mountinfo").read_text()


def unmount(where):
    for how in ((), ("-f", "-l")):
        try:
            subprocess.run(["umount", *how, str(where)], stderr=subprocess.DEVNULL, check=False, timeout=60)
        except subprocess.TimeoutExpired:
            continue
        if not mounted(where):
            return


class PeerMount:
    """A program in the foreground, in a session of its own, that has mounted. `also`: pids that it cannot do without."""

    def __init__(self, world, name, command, also=()):
        self.world, self.where, self.also = world, world.folder("mnt"), set(also)
        log = world.scratch / f"{name}.log"
        began = time.monotonic()
        with log.open("ab") as out:
            self.process = subprocess.Popen([str(word) for word in command(self.where)], env=world.env, stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=out, start_new_session=True)
        world.mounts.append(self)
        for _ in range(6000):
            if mounted(self.where) or self.process.poll() is not None:
                break
            time.sleep(0.005)
        try:
            if not mounted(self.where):
                said = log.read_text(errors="replace").strip().splitlines()[-1:]
                raise RuntimeError(f"{name} does not mount: {' '.join(said)[-300:]}")
            run("ls", self.where)
        except (RuntimeError, subprocess.TimeoutExpired):
            self.close()
            raise
        self.seconds = time.monotonic() - began

    def family(self):
        table, mine = processes(), {self.process.pid}
        for _ in range(4):
            mine |= {pid for pid, (parent, session, _) in table.items() if parent in mine or session == self.process.pid}
        return mine & table.keys()

    def victim(self):
        """The process that serves: of those with a supervisor, the last child."""
        table, mine = processes(), self.family()
        return max(pid for pid in mine if not any(table[other][0] == pid for other in mine))

    def used(self):
        return cost(self.family() | self.also)

    def close(self):
        if self in self.world.mounts:
            self.world.mounts.remove(self)
        if mounted(self.where):
            unmount(self.where)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            pass
        for pid in self.family():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        os.rmdir(self.where)


class SampanMount:
    """As users mount: in the background, with a keeper."""

    def __init__(self, world, command):
        self.world, self.where = world, world.folder("mnt")
        began = time.monotonic()
        run(*command(self.where), env=world.env)
        run("ls", self.where)
        self.seconds = time.monotonic() - began
        world.mounts.append(self)
        self.pids = {self.status()[name] for name in ("pid", "keeper_pid")}

    def status(self):
        return run_json(SAMPAN, "status", self.where, "--json", timeout=60)

    def victim(self):
        return self.status()["pid"]

    def used(self):
        return cost(self.pids)

    def close(self):
        if self in self.world.mounts:
            self.world.mounts.remove(self)
        subprocess.run([SAMPAN, "umount", str(self.where)], env=self.world.env, check=False, timeout=120)
        if mounted(self.where):
            unmount(self.where)
        for _ in range(500):
            if not any(Path(f"/proc/{pid}").exists() for pid in self.pids):
                break
            time.sleep(0.02)
        os.rmdir(self.where)


# --- the programs -------------------------------------------------------------------------------------


class Program:
    """One that mounts the bucket as it is.

    name, and the program to look for; keeps: the cache outlives the mount; warms: it has a verb for that; in_place: it
    reads the objects that others have put there; ordered: it can be told the order of an epoch.
    """
    name = program = ""
    keeps, warms, in_place, ordered = True, False, True, False
    about = ""

    def __init__(self, world, store):
        self.world, self.store, self.path = world, store, found(self.program)

    def version(self):
        return run(self.path, "--version").split("\n")[0].strip()

    def prepare(self, sets):
        """Before anything is timed. `sets`: {prefix: folder}."""

    def command(self, where, cache, prefix, writable):
        raise NotImplementedError

    def mount(self, cache, prefix=SET, writable=False):
        return PeerMount(self.world, self.name, lambda where: self.command(where, cache, prefix, writable))


class Sampan(Program):
    name, program, warms, ordered = "Sampan", SAMPAN, True, True
    about = "`sampan mount s3://… --cache ssd:…`; what is written, as it is set by itself (`--commit close`)"

    def version(self):
        return run(SAMPAN, "version").split("\n")[0].strip()

    def command(self, where, cache, prefix, writable, *more):
        return [SAMPAN, "mount", f"s3://{BUCKET}/{prefix}", where, "--endpoint", self.store.endpoint, "--cache", f"ssd:{cache}=40GiB",
                "--free-space", "1%", "--quiet", *(["--writable"] if writable else []), *more]

    def mount(self, cache, prefix=SET, writable=False, *more):
        return SampanMount(self.world, lambda where: self.command(where, cache, prefix, writable, *more))

    def warmup(self, mount):
        run(SAMPAN, "warmup", mount.where, "--quiet", env=self.world.env)


class JuiceFS(Program):
    name, program, warms, in_place = "JuiceFS", "juicefs", True, False
    about = "its own volume (a copy of the set) with redis on this machine, without one sqlite3; `--read-only --cache-size 40960 --prefetch 1 " \
            "--open-cache 24h --attr-cache 24h --entry-cache 24h --dir-entry-cache 24h --readdir-cache`; written without `--writeback`"
    redis, where = None, ""

    def version(self):
        engine = run(found("redis-server"), "--version").split()[2].replace("v=", "") if found("redis-server") else ""
        return run(self.path, "version").split("\n")[0].strip() + (f", redis {engine}" if engine else ", sqlite3")

    def prepare(self, sets):
        home = self.world.folder("juicefs")
        if found("redis-server"):
            port = free_port()
            self.redis = subprocess.Popen([found("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                                           "--dir", str(home)], stdout=subprocess.DEVNULL, start_new_session=True)
            self.world.processes.append(self.redis)
            self.where = f"redis://127.0.0.1:{port}/1"
            time.sleep(0.5)
        else:
            self.where = f"sqlite3://{home}/meta.db"
        env = dict(self.world.env, ACCESS_KEY=KEY, SECRET_KEY=SECRET, peers=self.where)
        run(self.path, "format", "--storage", "minio", "--bucket", f"{self.store.endpoint}/juicefs", "--trash-days", "0", self.where, "peers", env=env)
        for prefix, folder in sets.items():
            run(self.path, "sync", "--threads", "16", f"{folder}/", f"jfs://peers/{prefix}", env=env, seconds=900)

    def command(self, where, cache, prefix, writable):
        kept = ["--attr-cache", "24h", "--entry-cache", "24h", "--dir-entry-cache", "24h", "--readdir-cache", "--open-cache", "24h", "--open-cache-limit", "0"]
        return [self.path, "mount", "--cache-dir", cache, "--cache-size", "40960", "--free-space-ratio", "0.01", "--prefetch", "1", "--no-usage-report",
                "--no-syslog", "--no-bgjob", "--hide-internal", *(["--subdir", prefix] if prefix else []), *([] if writable else ["--read-only", *kept]), self.where, where]

    def mount(self, cache, prefix=SET, writable=False):
        if prefix and writable:
            whole = self.mount(self.world.folder("cache"), "", True)
            os.makedirs(whole.where / prefix, exist_ok=True)
            whole.close()
        return PeerMount(self.world, self.name, lambda where: self.command(where, cache, prefix, writable), {self.redis.pid} if self.redis else ())

    def warmup(self, mount):
        run(self.path, "warmup", mount.where, env=self.world.env)


class MountS3(Program):
    name, program, keeps = "mountpoint-s3", "mount-s3", False
    about = "`--cache … --metadata-ttl indefinite`; it empties its cache when it ends, so that first epochs are read without mounting anew"

    def __init__(self, world, store):
        super().__init__(world, store)
        self.library = None if self.path else found("mount-s3-library")
        self.path = self.path or self.library

    def version(self):
        return "its library (crates.io), 0.11.0" if self.library else super().version()

    def command(self, where, cache, prefix, writable):
        if self.library:
            return [self.path, f"{BUCKET}/{prefix}", where, self.store.endpoint, "-" if writable else cache, "write" if writable else "read"]
        how = ["--allow-delete", "--allow-overwrite"] if writable else ["--read-only", "--cache", cache, "--metadata-ttl", "indefinite"]
        return [self.path, BUCKET, where, "--foreground", "--endpoint-url", self.store.endpoint, "--force-path-style",
                *(["--prefix", prefix] if prefix else []), *how]


class Rclone(Program):
    name = program = "rclone"
    about = "`--vfs-cache-mode full --dir-cache-time 24h --attr-timeout 24h --vfs-cache-max-age 24h --no-modtime`"

    def command(self, where, cache, prefix, writable):
        kept = ["--dir-cache-time", "24h", "--attr-timeout", "24h", "--no-modtime", "--read-only"]
        return [self.path, "mount", f":s3,provider=Minio,endpoint='{self.store.endpoint}':{BUCKET}/{prefix}".rstrip("/"), where, "--config", os.devnull,
                "--vfs-cache-mode", "full", "--cache-dir", cache, "--vfs-cache-max-age", "24h", *([] if writable else kept)]


class S3fs(Program):
    name = program = "s3fs"
    about = "`-o use_cache=…,kernel_cache,stat_cache_expire=86400,max_stat_cache_size=1000000,enable_noobj_cache`"

    def prepare(self, sets):
        s3fs_keys(self.world)

    def command(self, where, cache, prefix, writable):
        kept = "" if writable else f",use_cache={cache},ro,kernel_cache,stat_cache_expire=86400,max_stat_cache_size=1000000,enable_noobj_cache"
        return [self.path, f"{BUCKET}:/{prefix}".rstrip("/"), where, "-f", "-o",
                f"url={self.store.endpoint},use_path_request_style,passwd_file={self.world.scratch}/s3fs{kept}"]


def s3fs(world, endpoint, cache):
    """An s3fs of the bucket behind this address; without a cache where `cache` is empty."""
    program = S3fs(world, types.SimpleNamespace(endpoint=endpoint))
    program.prepare({})
    return program.mount(cache, "")


class Geesefs(Program):
    name = program = "geesefs"
    about = "`--cache … --stat-cache-ttl 24h`"

    def command(self, where, cache, prefix, writable):
        kept = ["--cache", cache, "--stat-cache-ttl", "24h"] + ([] if writable else ["-o", "ro"])
        return [self.path, "-f", "--endpoint", self.store.endpoint, *kept, f"{BUCKET}:{prefix}".rstrip(":/"), where]


class Goofys(Program):
    name = program = "goofys"
    about = "`--stat-cache-ttl 24h --type-cache-ttl 24h`; it has no cache of its own"

    def command(self, where, cache, prefix, writable):
        return [self.path, "-f", "--endpoint", self.store.endpoint, "--stat-cache-ttl", "24h", "--type-cache-ttl", "24h", *([] if writable else ["-o", "ro"]),
                f"{BUCKET}:{prefix}".rstrip(":/"), where]


PROGRAMS = [Sampan, JuiceFS, MountS3, Rclone, S3fs, Geesefs, Goofys]

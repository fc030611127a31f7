#!/usr/bin/env python3
"""Faults, kills and power cuts, one after another, over the code that users run (docs/testing.md).

    torture.py [--short] [--cuts N] [--seconds S] [--seed N] [--jobs N] [KIND...] [KEY=VALUE...]

KINDS  faults  the n-th call of a kind fails, for n = 1, 2, 3 … until a run meets none
       allocs  the n-th allocation fails
       kills   the program is killed before its n-th call
       cuts    the power fails at a moment and in a way that a seed picks
       stage   the same under the stage of a writable mount (stage_cuts.py)
       train   ranks of a training job are killed, at steps and within checkpoints (train_kills.py)
KEYS   path= calls= fail= sticky= nth= life= seed= of= saves= store=   try one point again, as a failure prints them;
       nth=7000-7999, nth=7000-                          a stretch of a long run

Each point: a fresh cache folder, the run with the fault, then a run without. The first must end well or
with one line of error, never by a signal, a hang or a wrong byte; the second must succeed, serve every
byte right and leave nothing half-done behind. Last line: "N passed, N failed"; exit 1 if any failed.
"""
import argparse
import concurrent.futures
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from stage_cuts import StageCuts
from train_kills import TrainKills

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("SAMPAN_BUILD", ROOT / "build"))
TOOLS = BUILD / "torture"
SAMPAN = BUILD / "bin/sampan"
HALF_DONE = re.compile(r"^\.build-|\.part-\d+$|\.new$")
OTHER_BOOT = "11111111-2222-3333-4444-555555555555\n"
LIMIT_S = 300

# What is run: steps of drive, and what the cache folder holds before. "sampan" runs the command.
PATHS = {
    "fill": (None, ["scan", "open", "read", "flush", "close"]),
    "reopen": ("killed", ["open", "read", "flush", "close"]),
    "change": ("edited", ["open", "rescan", "read", "flush", "evict:200000", "read", "clear", "read", "close"]),
    "scan": (None, "scan"),
}
# What must hold after it: all is served, and nothing in the cache is damaged.
AFTER = ["open", "read", "flush", "check", "close"]
FAULTS = [
    ("open", "EIO"), ("open", "EMFILE"), ("read", "EIO"), ("read", "short"), ("write", "EIO"),
    ("write", "ENOSPC"), ("write", "short"), ("sync", "EIO"), ("mmap", "ENOMEM"), ("memory", "ENOMEM"),
    ("thread", "EAGAIN"), ("rename", "EIO"), ("unlink", "EIO"), ("make", "EIO"), ("size", "ENOSPC"),
    ("stat", "EIO"), ("lock", "ENOLCK"), ("list", "EIO"),
]
CHANGES = "open,write,sync,rename,unlink,make,size,lock"
MAY_ABORT = ("memory", "alloc")  # the process has no memory left: it says so and ends (common/base/mem.h)


class Run:
    """What a program printed and how it ended; `meddled` is meddle's report."""

    def __init__(self, code, text):
        self.code, self.text, self.meddled = code, text, {}
        lines = []
        for line in text.splitlines():
            if line.startswith("meddle: {"):
                self.meddled = json.loads(line[8:])
            else:
                lines.append(line)
        self.lines = [line for line in lines if line.strip()]
        self.end = self.meddled.get("end", f"exit {code}" if code >= 0 else f"signal {-code}")


def run(command, env=None):
    try:
        done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, timeout=2 * LIMIT_S, env=env, check=False)
        return Run(done.returncode, done.stdout.decode(errors="replace"))
    except subprocess.TimeoutExpired as e:
        return Run(-14, (e.stdout or b"").decode(errors="replace") + "\nit hung")


class World:
    """A source with its copy for comparing, and cache folders in states to start from."""

    def __init__(self, base, seed):
        self.base, self.seed = base, seed
        self.src, self.ref = base / "src", base / "ref"
        self.boot = base / "boot-id"
        self.boot.write_text(OTHER_BOOT)
        chance = random.Random(seed)
        for i in range(14):
            self.put(f"class-{i % 3}/sample-{i:02}", chance.randbytes(chance.choice([1, 300, 511, 4096, 9000, 20000])))
        self.put("class-0/empty", b"")
        self.put("class-1/text", b"all alike " * 14000)
        self.put("class-2/blocks", chance.randbytes(150000) * 30)  # two units
        for name in ("same-size", "size", "new-0"):
            self.put(f"edit/{name}", chance.randbytes(3000))
        self.templates = {}
        self.template("killed", ["scan", "open", "read", "flush", "die"], -9)
        self.local = 16  # samples that have bytes and are never edited

    def put(self, name, data):
        for top in (self.src, self.ref):
            path = top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            os.utime(path, (1_500_000_000, 1_500_000_000))

    def drive(self, src, ref, cache, steps):
        return [TOOLS / "drive", src, ref, cache, *steps]

    def template(self, name, steps, code=0):
        cache = make(self.base / f"template-{name}")
        done = run(self.drive(self.src, self.ref, cache, steps))
        assert done.code == code, done.text
        self.templates[name] = cache

    def place(self, where, path):
        """Folders of one point: its own cache, and its own source where the path edits it."""
        start, src, ref, cache = PATHS[path][0], self.src, self.ref, where / "cache"
        if start == "edited":
            src, ref = where / "src", where / "ref"
            linked_copy(self.src, src)
            linked_copy(self.ref, ref)
            done = run(self.drive(src, ref, make(cache), ["scan", "open", "read", "flush", "close", "edit:1"]))
            assert done.code == 0, done.text
        elif start:
            shutil.copytree(self.templates[start], cache, symlinks=True)
        return src, ref, make(cache)


def linked_copy(source, to):
    shutil.copytree(source, to, copy_function=os.link)  # edits make new files


def make(path):
    path.mkdir(parents=True, exist_ok=True)
    return path


def half_done(cache):
    return sorted(str(p.relative_to(cache)) for p in cache.rglob("*") if HALF_DONE.search(p.name))


class Torture:
    def __init__(self, world, options, keys):
        self.world, self.options, self.keys = world, options, keys
        self.passed = self.failed = 0
        self.lock = threading.Lock()
        self.counts = {}

    # --- counting

    def verdict(self, what, wrong, detail=""):
        with self.lock:
            if not wrong:
                self.passed += 1
                return
            self.failed += 1
            print(f"FAIL {what}: {'; '.join(wrong)}")
            print("".join(f"    {line}\n" for line in detail.splitlines()[:12]), end="")
            print(f"    again: make torture K='{what}'", flush=True)

    def pool(self, jobs):
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            for future in [pool.submit(*job) for job in jobs]:
                future.result()

    def wants(self, **have):
        return all(str(have[k]) == v for k, v in self.keys.items() if k in have)

    def some(self, kind, total, short):
        """The points of 1..total that are tried: all, or in short rounds a few, others each seed."""
        if "nth" in self.keys:
            first, to, last = self.keys["nth"].partition("-")
            return range(int(first), min(int(last or total), total) + 1) if to else [int(first)]
        most = self.options.points or (short if self.options.short else 0)
        if not most or total <= most:
            return range(1, total + 1)
        return sorted(random.Random(f"{self.options.seed} {kind}").sample(range(1, total + 1), most))

    # --- one point

    def command(self, path, src, ref, cache):
        steps = PATHS[path][1]
        if steps == "scan":
            return [SAMPAN, "scan", f"file://{src}", "--cache", f"ssd:{cache}=64MiB", "--quiet"]
        return self.world.drive(src, ref, cache, steps)

    def environment(self, path, cache):
        env = dict(os.environ, SAMPAN_RUN_DIR=str(cache.parent / "run"), HOME=str(cache.parent), XDG_CACHE_HOME=str(cache.parent))
        if path == "reopen":  # as after a power cut: the index is made anew
            env["LD_PRELOAD"], env["TORTURE_BOOT_ID"] = str(TOOLS / "preload.so"), str(self.world.boot)
        return env

    def judge(self, done, may_abort, killed=False):
        if killed and done.end == "signal 9":
            return []
        if done.end == "exit 0":
            return []
        if done.end == "signal 6" and may_abort and "out of memory" in done.text:
            return []
        told = len(done.lines) == 1 and re.match(r"(drive|sampan) [\w:]+: .", done.lines[0].replace("drive: ", "drive ", 1))
        if re.match(r"exit [1-9]$", done.end) and told:
            return []
        return [f"it ended with {done.end} and {len(done.lines)} lines of error"]

    def after(self, path, src, ref, cache):
        """The run without faults that must put all right."""
        steps = [AFTER[0], "rescan", *AFTER[1:]] if path == "change" else AFTER
        done = run(self.world.drive(src, ref, cache, steps), self.environment("", cache))
        wrong = [] if done.code == 0 else [f"the next run: {done.end}: {' / '.join(done.lines[-2:])}"]
        left = half_done(cache)
        return wrong + ([f"left behind: {' '.join(left)}"] if left else [])

    def point(self, what, path, options, may_abort=False, env=None):
        with tempfile.TemporaryDirectory(dir=self.world.base) as folder:
            src, ref, cache = self.world.place(Path(folder), path)
            below = ["--below", cache, "--below", src]
            tool = [TOOLS / "meddle", *below, *options, "--timeout", LIMIT_S, "--"] if options else []
            done = run([*tool, *self.command(path, src, ref, cache)], {**self.environment(path, cache), **(env or {})})
            wrong = self.judge(done, may_abort, "--kill" in options)
            if done.end.startswith("exit") and "unlink" not in what and half_done(cache):
                wrong.append(f"it left {' '.join(half_done(cache))}")
            wrong += self.after(path, src, ref, cache)
            self.verdict(what, wrong, f"at {done.meddled.get('hit')}\n{done.text}")
            return done

    def count(self, path, calls):
        """How many calls a run without faults makes."""
        if (path, calls) not in self.counts:
            self.counts[path, calls] = self.count_once(path, calls)
        return self.counts[path, calls]

    def count_once(self, path, calls):
        with tempfile.TemporaryDirectory(dir=self.world.base) as folder:
            src, ref, cache = self.world.place(Path(folder), path)
            done = run([TOOLS / "meddle", "--below", cache, "--below", src, "--calls", calls, "--nth", "0", "--",
                        *self.command(path, src, ref, cache)], self.environment(path, cache))
            assert done.end == "exit 0", done.text
            return done.meddled["seen"]

    # --- the kinds

    def faults(self):
        jobs = []
        for path in PATHS:
            for calls, fail in FAULTS:
                if not self.wants(path=path, calls=calls, fail=fail):
                    continue
                how = ["--short"] if fail == "short" else ["--fail", fail]
                total = self.count(path, calls)
                for n in self.some(f"{path} {calls} {fail}", total, 1):
                    for sticky in [[]] if self.options.short and calls != "memory" else [[], ["--sticky"]]:
                        what = f"faults path={path} calls={calls} fail={fail} nth={n}" + (" sticky=1" if sticky else "")
                        if ("sticky" in self.keys) and bool(sticky) != (self.keys["sticky"] == "1"):
                            continue
                        jobs.append((self.point, what, path, ["--calls", calls, "--nth", n, *how, *sticky], calls in MAY_ABORT))
        self.pool(jobs)

    def allocs(self):
        jobs = []
        for path in ("fill", "change", "scan"):
            if not self.wants(path=path):
                continue
            with tempfile.TemporaryDirectory(dir=self.world.base) as folder:
                src, ref, cache = self.world.place(Path(folder), path)
                report = Path(folder) / "allocs"
                run(self.command(path, src, ref, cache), {**self.environment(path, cache), "LD_PRELOAD": str(TOOLS / "preload.so"),
                                                         "TORTURE_ALLOC": "0", "TORTURE_REPORT": str(report)})
                total = int(report.read_text())
            for n in self.some(f"allocs {path}", total, 6):
                env = {"LD_PRELOAD": str(TOOLS / "preload.so"), "TORTURE_ALLOC": str(n)}
                jobs.append((self.point, f"allocs path={path} nth={n}", path, [], True, env))
        self.pool(jobs)

    def kills(self):
        jobs = []
        for path in PATHS:
            if not self.wants(path=path):
                continue
            for n in self.some(f"kill {path}", self.count(path, CHANGES), 10):
                jobs.append((self.point, f"kills path={path} nth={n}", path, ["--calls", CHANGES, "--nth", n, "--kill"]))
        self.pool(jobs)

    # --- power cuts

    LIFE = ["scan", "open", "read", "flush", "edit:1", "rescan", "read", "flush", "evict:120000", "read", "close",
            "edit:2", "open", "rescan", "read", "flush", "clear", "read", "flush", "close",
            "lose", "edit:3", "open", "read", "flush", "read", "close", "open", "read", "close"]

    def record(self, where):
        src, ref, cache = where / "src", where / "ref", make(where / "cache")
        shutil.copytree(self.world.src, src)
        shutil.copytree(self.world.ref, ref)
        done = run([TOOLS / "meddle", "--below", cache, "--record", where / "log", "--timeout", LIMIT_S, "--",
                    *self.world.drive(src, ref, cache, self.LIFE)])
        assert done.end == "exit 0", done.text
        return src, ref, where / "log"

    def cut(self, src, ref, log, seed):
        with tempfile.TemporaryDirectory(dir=self.world.base) as folder:
            done = run([TOOLS / "replay", log, seed, folder])
            told = json.loads(done.text)
            cache = Path(folder) / "0"
            version, flushed = None, "0"
            for mark in told["marks"]:
                if mark.startswith("flushed:"):
                    flushed = mark[8:]
                elif mark == "publishing":
                    version = None
                else:
                    version = mark.split(":")[1]
            held = ([f"published:{version}"] if version else []) + ["open", f"floor:{flushed}", "rescan", "read", "flush", "check", "close"]
            env = dict(os.environ, LD_PRELOAD=str(TOOLS / "preload.so"), TORTURE_BOOT_ID=str(self.world.boot))
            done = run(self.world.drive(src, ref, cache, held), env)
            wrong = [] if done.code == 0 else [f"{done.end}: {' / '.join(done.lines[-2:])}"]
            left = half_done(cache)
            wrong += [f"left behind: {' '.join(left)}"] if left else []
            self.verdict(f"cuts life={log.parent} seed={seed}", wrong, f"cut at {told['cut']} of {told['ops']}, names {told['names']}, "
                         f"flushed {flushed}, published {version}\n{done.text}")

    def cuts(self):
        """One recorded life, many cuts. Threads make each life a little different: one that failed is kept."""
        life, failed = Path(tempfile.mkdtemp(prefix="life-", dir=TOOLS)), self.failed
        if "life" in self.keys:
            life.rmdir()
            life = Path(self.keys["life"])
            recorded = life / "src", life / "ref", life / "log"
        else:
            recorded = self.record(life)
        first = self.options.seed * 1_000_000
        seeds = [int(self.keys["seed"])] if "seed" in self.keys else range(first, first + self.options.cuts)
        self.pool([(self.cut, *recorded, seed) for seed in seeds])
        until = time.monotonic() + self.options.seconds
        while self.options.seconds and "seed" not in self.keys and time.monotonic() < until:
            fresh = random.SystemRandom().randrange(1 << 40)
            self.pool([(self.cut, *recorded, fresh + i) for i in range(50)])
        if self.failed == failed and "life" not in self.keys:
            shutil.rmtree(life)

    def stage(self):
        """As cuts, of what a writable mount keeps; the store's machine goes on."""
        first = self.options.seed * 1_000_000

        def seeds(lives):
            return [int(self.keys["seed"])] if "seed" in self.keys else range(first, first + self.options.cuts // lives)

        def other_boot():
            return dict(os.environ, LD_PRELOAD=str(TOOLS / "preload.so"), TORTURE_BOOT_ID=str(self.world.boot))

        StageCuts(self, TOOLS, run, other_boot).play(seeds, self.keys)

    def train(self):
        kills = TrainKills(self, BUILD / "bin/sampan-train", TOOLS)
        if "seed" not in self.keys and "others" not in self.keys:
            points = list(self.some("train", kills.count(), 4))
            if "nth" not in self.keys and len(points) > 100:  # each is two jobs
                points = random.Random(f"{self.options.seed} train").sample(points, 100)
            self.pool([(kills.cut, n) for n in points])
        first, most = self.options.seed * 1_000_000, self.options.cuts // 15
        asked = [key for key in ("nth", "seed", "others") if key in self.keys]
        for key, play in (("seed", kills.kill), ("others", kills.change)):
            if key in self.keys:
                self.pool([(play, int(self.keys[key]))])
            elif not asked:
                self.pool([(play, s) for s in range(first, first + most)])
        until = time.monotonic() + self.options.seconds
        while self.options.seconds and not asked and time.monotonic() < until:
            seed = random.SystemRandom().randrange(1 << 40)
            self.pool([(kills.kill, seed), (kills.change, seed)])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--points", type=int, default=0, help="at most so many of each kind of call")
    parser.add_argument("--cuts", type=int, default=None)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    keys = dict(w.split("=", 1) for w in options.words if "=" in w)
    kinds = [w for w in options.words if "=" not in w] or ["faults", "allocs", "kills", "cuts", "stage", "train"]
    why = run([TOOLS / "meddle", "--calls", "open", "--nth", "0", "--", "true"])
    if why.end != "exit 0":
        print(f"SKIP: programs cannot be traced here: {why.text.strip()}")
        sys.exit(77)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the folders go
    if options.cuts is None:
        options.cuts = 60 if options.short else 1000
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 1 << 30
    base = Path(tempfile.mkdtemp(prefix="sampan-torture-", dir=memory if roomy else None))
    try:
        torture = Torture(World(base, 1), options, keys)
        for kind in kinds:
            began, before = time.monotonic(), (torture.passed, torture.failed)
            getattr(torture, kind)()
            print(f"{kind}: {torture.passed - before[0]} points passed, {torture.failed - before[1]} failed, "
                  f"{time.monotonic() - began:.1f} s", flush=True)
        print(f"{torture.passed} passed, {torture.failed} failed")
        sys.exit(1 if torture.failed or not torture.passed else 0)
    finally:
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    main()
